"""What the experiments of `probes.py` share: the form of an answer, and a compile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pymlgo.toolchain.llvm import LLVM
from pymlgo.toolchain.messages import explain
from pymlgo.toolchain.process import Argument, Finished, run

LIMIT_S = 30.0
"""Each experiment takes well below a second; beyond this the answer is "could not be tried"."""

CALLS = "static int f(int x) { return x * x + 3; }\nint g(int a) { return f(a) + f(a + 1); }\n"
"""C in which there is something to inline; the callee is called twice, so that it is a question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """What came of an experiment: `available` is None where it could not be made."""

    available: bool | None
    detail: str
    hint: str | None = None


def compile_calls(llvm: LLVM, folder: Path, flags: Sequence[str]) -> Finished:
    """`CALLS` compiled to `folder/"calls.o"`.

    Raises:
        ToolchainError: the compiler cannot be started or passes the limit.
    """
    source = folder / "calls.c"
    source.write_text(CALLS)
    command: list[Argument] = [llvm.clang, "-O1", "-c", source, "-o", folder / "calls.o", *flags]
    return run(command, limit_s=LIMIT_S)


def refusal(stderr: bytes, otherwise: str) -> Capability:
    """The answer "no", with the first line of what the tool said and what is known about it."""
    text = stderr.decode(errors="replace")
    first = next((line.strip() for line in text.splitlines() if line.strip()), otherwise)
    said = first.removeprefix("clang (LLVM option parsing): ").partition(".  Try:")[0]
    return Capability(available=False, detail=said, hint=explain(text))
