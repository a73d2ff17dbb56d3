"""All LLVMs of this machine with what each can do: the answer of `mlgo doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pymlgo.toolchain.advisor import advisor_plugins
from pymlgo.toolchain.capabilities import Capabilities, probe
from pymlgo.toolchain.experiment import Capability
from pymlgo.toolchain.llvm import find_llvm, find_llvms, llvm_of
from pymlgo.toolchain.probes import DESCRIPTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """The LLVMs in the order in which they are chosen: the first is the one that commands use.

    `advisor_plugins` are those of this package, by LLVM major.
    """

    llvms: tuple[Capabilities, ...]
    advisor_plugins: Mapping[int, Path] = field(default_factory=dict)

    def to_text(self) -> str:
        """A table for each LLVM, with a hint under each gap."""
        return "\n\n".join("\n".join((_table(each), *self._plugin_lines(each))) for each in self.llvms)

    def _plugin_lines(self, llvm: Capabilities) -> tuple[str, ...]:
        major = int(llvm.version.partition(".")[0])
        if major in self.advisor_plugins:
            return (f"  {'our plugin':<18}  yes  {self.advisor_plugins[major]}",)
        hint = f"with LLVM's headers (Debian: llvm-{major}-dev) install pymlgo again" if major in (19, 22) else ""
        none = f"  {'our plugin':<18}  no   there is none for LLVM {major}"
        return (none, f"{'':<22}hint: {hint}") if hint else (none,)


def examine(*, clang: Path | str | None = None, use_cache: bool = True) -> DoctorReport:
    """Probe every LLVM that is found, or only the one of `clang`.

    Raises:
        ToolchainError: there is none.
    """
    # Without any, `find_llvm` raises the error that says what to install.
    llvms = (llvm_of(clang),) if clang is not None else find_llvms() or (find_llvm(),)
    probed = tuple(probe(each, use_cache=use_cache) for each in llvms)
    return DoctorReport(llvms=probed, advisor_plugins=advisor_plugins())


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
