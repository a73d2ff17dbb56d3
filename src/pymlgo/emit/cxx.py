"""The C++ compiler that turns generated source into an object."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pymlgo.errors import ToolchainError
from pymlgo.toolchain.process import run

CANDIDATES = ("g++", "clang++", *(f"clang++-{major}" for major in range(30, 13, -1)), "c++")

FLAGS = (
    "-std=c++17",
    "-O2",  # as fast as -O3 here, for the vectors are in the source
    "-ffp-contract=off",  # a fused multiply-add rounds once where the policy's definition rounds twice
    "-fno-math-errno",  # sqrt is one instruction
    "-fno-exceptions",
    "-fno-rtti",
    "-fPIC",
    "-fvisibility=hidden",
    "-w",  # the source is ours; warnings are for our tests
)

COMPILE_LIMIT_S = 300.0
PORTABLE_ISA = "x86-64"
USUAL_ISA = "x86-64-v3"
USUAL_ISA_FLAGS = frozenset({"avx2", "bmi1", "bmi2", "fma", "f16c", "movbe", "abm"})
"""What /proc/cpuinfo lists where code for x86-64-v3 runs. Source: the psABI's micro-architecture levels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """A C++ compiler: its absolute path."""

    path: Path

    def command(self, arguments: Sequence[str | Path], *, isa: str) -> tuple[str, ...]:
        """The command line with the flags that keep every bit the same."""
        march = (f"-march={isa}",) if isa else ()
        return (str(self.path), *FLAGS, *march, *map(str, arguments))

    def compile(self, arguments: Sequence[str | Path], *, isa: str) -> None:
        """Run it.

        Raises:
            ToolchainError: it failed; with the command and the end of what it said.
        """
        command = self.command(arguments, isa=isa)
        done = run(command, limit_s=COMPILE_LIMIT_S)
        if done.returncode:
            tail = done.stderr.decode(errors="replace")[-2000:]
            raise ToolchainError(
                f"{self.path} failed with exit code {done.returncode} on generated code: {_first_error(tail)}",
                command=command,
                stderr_tail=tail,
                hint=f"does it know -march={isa}? --march names another" if "march" in tail else None,
            )


def find_compiler(wanted: str | Path | None = None) -> Compiler:
    """The compiler `wanted`, else that of $CXX, else g++ or clang++ from PATH.

    Raises:
        ToolchainError: there is none.
    """
    named = str(wanted) if wanted is not None else os.environ.get("CXX", "").strip()
    if named:
        found = shutil.which(named)
        if found is None:
            source = "" if wanted is not None else " that CXX names"
            raise ToolchainError(
                f"the C++ compiler {named!r}{source} is not there", hint="name one: --cxx g++ or --cxx clang++-22"
            )
        return Compiler(path=Path(found))
    for candidate in CANDIDATES:
        if found := shutil.which(candidate):
            return Compiler(path=Path(found))
    raise ToolchainError(
        "no C++ compiler: neither g++ nor clang++ is in PATH",
        hint="install g++ or clang++ (Debian: apt install g++), or name one with --cxx or CXX",
    )


def usual_isa() -> str:
    """The -march for code that shall run here: x86-64-v3 where this CPU has it, the baseline elsewhere."""
    if platform.machine() != "x86_64":
        return ""
    flags: set[str] = set()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return PORTABLE_ISA
    for line in lines:
        if line.startswith("flags"):
            flags = set(line.partition(":")[2].split())
            break
    return USUAL_ISA if flags >= USUAL_ISA_FLAGS else PORTABLE_ISA


def portable_isa() -> str:
    """The -march for code that shall run on every machine of this architecture."""
    return PORTABLE_ISA if platform.machine() == "x86_64" else ""


def _first_error(text: str) -> str:
    return next((line for line in text.splitlines() if "error" in line), text.strip().splitlines()[-1] if text else "")
