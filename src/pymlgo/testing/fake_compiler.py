"""A compiler that is none: it speaks the interactive channel as clang does, and fails where a test wants it to."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.tensor_spec import TensorSpec
from pymlgo.testing import fake_program
from pymlgo.training_log.header import Header
from pymlgo.training_log.lines import context_line


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeContext:
    """A context and its observations: a value for each feature, by name."""

    name: str = ""
    observations: Sequence[Mapping[str, object]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong.

    Attributes:
        moment: before the pipes are opened (start), before the header (opened), with half of a header, context or
            observation written, with the question asked and the advice unread (question), after everything (end).
        effect: exit with a failure, die from SIGKILL, fall silent, use a core for ever, or write `garbage` and go on.
        after: the fault comes at the first such moment after this many decisions.
        garbage: what is written.
    """

    moment: Literal["start", "opened", "header", "context", "observation", "question", "end"]
    effect: Literal["exit", "kill", "silence", "spin", "garbage"]
    after: int = 0
    garbage: bytes = b"garbage\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeCompiler:
    """A script for a compile; `command` turns it into something to run.

    Example:
        ```python
        compiler = FakeCompiler(
            features=(TensorSpec("callee_users", "int64_t", (1,)),),
            advice=TensorSpec("inlining_decision", "int64_t", (1,)),
            contexts=(FakeContext(observations=[{"callee_users": 3}, {"callee_users": 1}]),),
        )
        result = host(compiler.command(tmp_path), lambda observation: 1, flags=compiler.flags)
        assert [each.item() for each in compiler.answers(tmp_path)] == [1, 1]
        ```

    Attributes:
        features: the tensors of an observation.
        advice: the tensor of an answer.
        contexts: what is asked, in order.
        runs: how many compilers do all of that, one after the other, as with several sources in one command.
        fault: what goes wrong, if anything.
        stderr_bytes: how much is written to stderr before each question.
        stdout: what is written to stdout.
        with_child: a process of the compiler's own that uses a core for ever.
        exit_code: of the compiler, at the end or where a fault makes it exit.
    """

    features: Sequence[TensorSpec]
    advice: TensorSpec
    contexts: Sequence[FakeContext] = ()
    runs: int = 1
    fault: Fault | None = None
    stderr_bytes: int = 0
    stdout: bytes = b""
    with_child: bool = False
    exit_code: int = 0

    def command(self, folder: Path) -> list[str]:
        """The command that plays this script; it keeps its files in `folder`.

        Raises:
            SpecError: an observation lacks a feature, or a value does not fit.
        """
        script = folder / "fake-compiler.json"
        script.write_text(json.dumps(self._script(folder)))
        return [sys.executable, "-I", "-S", fake_program.__file__, str(script)]

    @staticmethod
    def flags(base: Path) -> tuple[str, ...]:
        """The flags that name the channel; those of clang do as well."""
        return (f"-fake-interactive-channel-base={base}",)

    def answers(self, folder: Path) -> list[AnyArray]:
        """The advice that it got, in order."""
        kept = folder / "fake-answers.json"
        texts = json.loads(kept.read_text()) if kept.exists() else []
        return [np.array(self.advice.view(bytes.fromhex(text))) for text in texts]

    def _script(self, folder: Path) -> dict[str, object]:
        header = Header(features=tuple(self.features), advice=self.advice)
        fault = self.fault and {
            "moment": self.fault.moment,
            "effect": self.fault.effect,
            "after": self.fault.after,
            "garbage": self.fault.garbage.hex(),
        }
        return {
            "header": header.to_line().hex(),
            "contexts": [self._context(each) for each in self.contexts],
            "advice_bytes": self.advice.byte_size,
            "answers": str(folder / "fake-answers.json"),
            "runs": self.runs,
            "fault": fault,
            "stderr_bytes": self.stderr_bytes,
            "stdout": self.stdout.hex(),
            "child": self.with_child,
            "exit_code": self.exit_code,
        }

    def _context(self, context: FakeContext) -> dict[str, object]:
        return {
            "name": context.name,
            "line": context_line(context.name).hex(),
            "observations": [
                b"".join(spec.array(each.get(spec.name)).tobytes() for spec in self.features).hex()
                for each in context.observations
            ],
        }
