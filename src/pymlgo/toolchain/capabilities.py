"""What an LLVM can really do: tried once on small inputs, remembered by the compiler's identity."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pymlgo.atomic_file import write_text
from pymlgo.toolchain.experiment import Capability
from pymlgo.toolchain.identity import binary_identity, cache_folder
from pymlgo.toolchain.llvm import LLVM
from pymlgo.toolchain.probes import DESCRIPTIONS, try_everything

_FORM = 1
"""Counts up when a probe changes, so that answers of the old one are not believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The answer of `probe`: for each name of `probes.DESCRIPTIONS` what was found."""

    clang: Path
    version: str
    identity: str
    capabilities: Mapping[str, Capability]

    def can(self, name: str) -> bool:
        """Whether it was tried and worked."""
        return self.capabilities[name].available is True


def probe(llvm: LLVM, *, use_cache: bool = True) -> Capabilities:
    """Try everything with `llvm`, each with a limit; takes one or two seconds, and nothing when it is remembered.

    Answers are kept under the cache folder by the identity of the compiler and of the tools that take part. An answer
    that is only "could not be tried" is not kept.

    Raises:
        ToolchainError: the compiler cannot be read.
    """
    identity = binary_identity(llvm.clang)
    entry = cache_folder("capabilities") / f"{_FORM}-{identity[:32]}-{_tools_key(llvm)}.json"
    found = _remembered(entry) if use_cache else None
    if found is None:
        found = _tried(llvm)
        if all(each.available is not None for each in found.values()):
            with contextlib.suppress(OSError):  # an unwritable cache makes this slow, not wrong
                write_text(entry, json.dumps({name: dataclasses.asdict(each) for name, each in found.items()}))
    return Capabilities(clang=llvm.clang, version=llvm.version_text, identity=identity, capabilities=found)


def _tools_key(llvm: LLVM) -> str:
    """Changes when a tool that a probe runs appears or goes."""
    tool = llvm.tool("llvm-ir2vec")
    return binary_identity(tool)[:16] if tool else "none"


def _remembered(entry: Path) -> dict[str, Capability] | None:
    try:
        known = json.loads(entry.read_text(encoding="utf-8"))
        return {name: Capability(**known[name]) for name in DESCRIPTIONS}
    except (OSError, ValueError, LookupError, TypeError):
        return None  # absent, or written by another version: it is tried anew


def _tried(llvm: LLVM) -> dict[str, Capability]:
    with tempfile.TemporaryDirectory(prefix="mlgo-probe-") as folder:
        found = try_everything(llvm, Path(folder))
        # Some texts of clang name the input, which is of no use once the folder is gone.
        return {
            name: dataclasses.replace(each, detail=each.detail.replace(folder, "…")) for name, each in found.items()
        }
