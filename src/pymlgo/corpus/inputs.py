"""The kinds of input that a corpus is extracted from, behind one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from pymlgo.corpus.candidates import Candidate, Skipped
from pymlgo.corpus.compile_database import read_compile_database
from pymlgo.corpus.extract import ExtractOptions, extract
from pymlgo.corpus.extract_result import ExtractResult
from pymlgo.corpus.link_inputs import read_aquery, read_archive, read_directory, read_params
from pymlgo.errors import ConfigError

InputType = Literal["json", "params", "directory", "bazel_aquery", "archive"]
INPUT_TYPES: tuple[str, ...] = get_args(InputType)

AQUERY_LIMIT = "only what the queried target links is in the corpus, not every object of the build"
MISSPELLED_AQUERY = "bazel_aqeury"
"""The spelling in LLVM's document."""


def extract_corpus(
    input_path: Path | None,
    output_dir: Path,
    *,
    input_type: str = "json",
    obj_base_dir: Path | None = None,
    options: ExtractOptions | None = None,
    about: Mapping[str, object] | None = None,
) -> ExtractResult:
    """Extract a corpus from a build.

    Args:
        input_path: a compile database, parameter file, folder, aquery result or archive; None for local ThinLTO.
        output_dir: the corpus; made if it does not exist.
        input_type: one of `INPUT_TYPES`, in LLVM's spelling or with dashes.
        obj_base_dir: objects are named relative to it, and paths in parameter files and aquery results start there.
        options: how to extract.
        about: more on where the modules come from, for the manifest.

    Raises:
        ConfigError: input, type and ThinLTO mode do not go together.
        CorpusError: the input cannot be read, or the output not written.
    """
    options = options or ExtractOptions()
    if options.thinlto == "local":
        if input_path is not None:
            raise ConfigError(
                "a local ThinLTO build takes no input",
                hint="its modules are found below --obj-base-dir (the folder that lld wrote *.3.import.bc to)",
            )
        from pymlgo.corpus.thinlto import extract_local  # starts clang, which few inputs need

        return extract_local(obj_base_dir or Path(), output_dir, options)
    if input_path is None:
        raise ConfigError("an input is needed", hint="give --input, or --thinlto-build=local with --obj-base-dir")
    kind = known_type(input_type)
    source: dict[str, object] = {"input": str(input_path), "type": kind, "obj_base_dir": str(obj_base_dir or "")}
    source |= about or {}
    result = extract(_offers(input_path, kind, obj_base_dir), output_dir, options, source=source)
    if kind == "bazel_aquery":
        return replace(result, hints=(*result.hints, AQUERY_LIMIT))
    return result


def known_type(name: str) -> str:
    """The input type that `name` spells.

    Raises:
        ConfigError: there is none like it.
    """
    plain = name.replace("-", "_")
    if plain == MISSPELLED_AQUERY:
        return "bazel_aquery"
    if plain in INPUT_TYPES:
        return plain
    raise ConfigError(f"unknown input type {name!r}", hint=f"known are {', '.join(INPUT_TYPES)}")


def _offers(path: Path, kind: str, base_dir: Path | None) -> Iterable[Candidate | Skipped]:
    base = None if base_dir is None else str(base_dir.absolute())
    match kind:
        case "json":
            return read_compile_database(path, base)
        case "params":
            return read_params(path, base)
        case "directory":
            return read_directory(path, base)
        case "archive":
            return read_archive(str(path), path.name)
        case _:
            return read_aquery(path, base)
