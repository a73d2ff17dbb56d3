"""What is left of a policy's effect after linking.

In C++ many objects hold a copy of the same inline function, and the linker keeps one of them. A policy that inlines
such copies away makes every object smaller, and the program less so: both sizes belong together.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pymlgo.corpus.object_file import ObjectError
from pymlgo.corpus.objects import object_sizes
from pymlgo.errors import ToolchainError
from pymlgo.evaluate.evaluation import LinkedEvaluation
from pymlgo.evaluate.summing import sum_up_linked
from pymlgo.rollout import Sizes
from pymlgo.toolchain.process import run

LINKER = "ld.lld"

LINK_LIMIT_S = 600.0
"""A program of some thousand objects links in seconds."""

FLAGS = (
    "-pie",
    "--eh-frame-hdr",
    "--no-gc-sections",
    "--icf=none",
    "--build-id=none",
    "--strip-all",
    "--threads=1",
    "--entry=0",
    # A corpus is seldom a whole program: libraries are missing, and each of its tools has a `main`.
    "--unresolved-symbols=ignore-all",
    "-zmuldefs",
    # Objects that were not meant for a position-independent program are laid out all the same, and that is all we need.
    "-znotext",
    "--noinhibit-exec",
    "--no-warnings",
)
"""Everything is kept but for copies of one COMDAT group, so that the sum is over the same code as that of objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoObjects:
    """A module's object under LLVM's default, and the one under the policy."""

    default: Path
    given: Path


@dataclass(slots=True, kw_only=True)
class LinkedPrograms:
    """Links programs both ways; `linker` is None where this LLVM has none."""

    linker: Path | None
    _sizes: dict[str, tuple[Sizes, Sizes]] = field(default_factory=dict)
    _modules: dict[str, int] = field(default_factory=dict)
    _failed: dict[str, str] = field(default_factory=dict)

    def add(self, program: str, objects: Sequence[TwoObjects], folder: Path) -> None:
        """Link the objects of a program in `folder`, and remove them; what fails is remembered."""
        try:
            self._sizes[program] = self._link(objects, folder)
            self._modules[program] = len(objects)
        except ToolchainError as error:
            self._failed[program] = str(error)
        for each in objects:
            each.default.unlink()
            each.given.unlink()

    def summed(self) -> LinkedEvaluation:
        """What linking gave so far."""
        return sum_up_linked(self._sizes, self._modules, self._failed)

    def _link(self, objects: Sequence[TwoObjects], folder: Path) -> tuple[Sizes, Sizes]:
        if self.linker is None:
            raise ToolchainError(f"this LLVM has no {LINKER}")
        if not objects:
            raise ToolchainError("no module compiled both ways")
        return (
            linked_sizes(self.linker, [each.default for each in objects], folder / "linked"),
            linked_sizes(self.linker, [each.given for each in objects], folder / "linked"),
        )


def linked_sizes(linker: Path, objects: Sequence[Path], output: Path) -> Sizes:
    """The sizes of the program that `objects` make; `output` is overwritten and removed.

    Raises:
        ToolchainError: they cannot be linked.
    """
    # In a file: a program of some thousand objects does not fit into a command line.
    response = output.with_suffix(".objects")
    response.write_bytes(b"".join(b'"%s"\n' % os.fsencode(each) for each in objects))
    done = run([linker, *FLAGS, f"@{response}", "-o", output], limit_s=LINK_LIMIT_S)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().partition("\n")[0] or "it said nothing"
        raise ToolchainError(f"{linker.name} failed: {said}")
    try:
        found = object_sizes(output.read_bytes())
        output.unlink()
    except (ObjectError, OSError) as error:
        raise ToolchainError(f"{linker.name} left no program that can be measured: {error}") from error
    return Sizes(text_bytes=found.text_bytes, berkeley_bytes=found.berkeley_bytes)
