"""`opt` over a module, for who wants code at several optimization levels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pymlgo.embed.core import core
from pymlgo.errors import CorpusError, ToolchainError
from pymlgo.toolchain.llvm import find_llvm
from pymlgo.toolchain.process import run

AS_IS = "as-is"
LEVELS = ("O0", "O1", "O2", "O3", "Os", "Oz")
OPT_LIMIT_S = 600.0
"""Seconds for one module; a large amalgamation takes ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """The `opt` of the LLVM that the core was built for, whose bitcode the core reads."""

    program: Path

    @classmethod
    def find(cls) -> Self:
        """The optimizer.

        Raises:
            ToolchainError: that LLVM has no `opt` here.
        """
        major = int(core().llvm_version().partition(".")[0])
        program = find_llvm(major=major).tool("opt")
        if program is None:
            raise ToolchainError(f"LLVM {major} has no opt here", hint=f"Debian: apt-get install llvm-{major}")
        return cls(program=program)

    def optimized(self, module: Path, level: str) -> bytes:
        """The bitcode of `module` after LLVM's default pipeline of `level`, one of `LEVELS`.

        Raises:
            CorpusError: `opt` fails on the module, or there is no such level.
        """
        if level not in LEVELS:
            raise CorpusError(f"unknown optimization level {level!r}", hint=f"levels: {AS_IS}, {', '.join(LEVELS)}")
        finished = run([self.program, f"-passes=default<{level}>", "-o", "-", module], limit_s=OPT_LIMIT_S)
        if finished.returncode:
            said = finished.stderr.decode(errors="replace").strip().splitlines()
            raise CorpusError(f"{module}: opt failed at {level}: {said[0] if said else finished.returncode}")
        return finished.stdout
