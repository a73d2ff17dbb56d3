"""All LLVMs of this machine with what each can do: the answer of `mlgo doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pymlgo.toolchain.capabilities import Capabilities, probe
from pymlgo.toolchain.experiment import Capability
from pymlgo.toolchain.llvm import find_llvm, find_llvms, llvm_of
from pymlgo.toolchain.probes import DESCRIPTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """The LLVMs in the order in which they are chosen: the first is the one that commands use."""

    llvms: tuple[Capabilities, ...]

    def to_text(self) -> str:
        """A table for each LLVM, with a hint under each gap."""
        return "\n\n".join(_table(each) for each in self.llvms)


def examine(*, clang: Path | str | None = None, use_cache: bool = True) -> DoctorReport:
    """Probe every LLVM that is found, or only the one of `clang`.

    Raises:
        ToolchainError: there is none.
    """
    # Without any, `find_llvm` raises the error that says what to install.
    llvms = (llvm_of(clang),) if clang is not None else find_llvms() or (find_llvm(),)
    return DoctorReport(llvms=tuple(probe(each, use_cache=use_cache) for each in llvms))


def _table(llvm: Capabilities) -> str:
    lines = [f"LLVM {llvm.version}  {llvm.clang}"]
    for name, words in DESCRIPTIONS.items():
        found = llvm.capabilities[name]
        lines.append(f"  {words:<18}  {_mark(found):<3}  {found.detail}".rstrip())
        if not found.available and found.hint:
            lines.append(f"{'':<22}hint: {found.hint}")
    return "\n".join(lines)


def _mark(found: Capability) -> str:
    return {True: "yes", False: "no", None: "?"}[found.available]
