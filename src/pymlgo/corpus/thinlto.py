"""Local ThinLTO: the modules that lld saved while it linked, and the command line that compiles them as it did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pymlgo.corpus.candidates import Candidate, Skipped
from pymlgo.corpus.extract import ExtractOptions, ExtractResult, extract
from pymlgo.corpus.names import safe_name
from pymlgo.corpus.walk import Found, walk

IMPORTED_SUFFIX, INDEX_SUFFIX = ".3.import.bc", ".thinlto.bc"


def extract_local(build_dir: Path, output_dir: Path, options: ExtractOptions) -> ExtractResult:
    """Extract the modules of a local ThinLTO build (`-Wl,--save-temps=import -Wl,--thinlto-emit-index-files`).

    Raises:
        CorpusError: `build_dir` is no folder, or the output cannot be written.
    """
    source = {"input": str(build_dir), "type": "thinlto-local"}
    return extract(_saved_modules(build_dir), output_dir, options, source=source, command_override=["<UNSPECIFIED>"])


def _saved_modules(build_dir: Path) -> Iterator[Candidate | Skipped]:
    for found in walk(build_dir, (IMPORTED_SUFFIX,)):
        if isinstance(found, Found):
            stem = found.path.removesuffix(IMPORTED_SUFFIX)
            name = safe_name(found.name.removesuffix(IMPORTED_SUFFIX) or "unnamed")
            yield Candidate(name=name, path=found.path, index=stem + INDEX_SUFFIX)
        else:
            yield found
