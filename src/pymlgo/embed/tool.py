"""The way through `llvm-ir2vec`, for installations without the native core: its two decimals are all there is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from pymlgo.embed.embeddings import Embeddings, Kind, Level, Precision, no_index
from pymlgo.errors import CorpusError, SpecError, ToolchainError
from pymlgo.toolchain.llvm import find_llvms
from pymlgo.toolchain.process import run

TOOL_LIMIT_S = 3600.0
"""The tool prints some 13,000 instructions a second."""

FIRST_MAJOR = 22
"""The first release that has llvm-ir2vec."""

_LEVELS = {Level.FUNCTION: "func", Level.BLOCK: "bb", Level.INSTRUCTION: "inst"}
_VECTOR = re.compile(rb" \[ ((?:-?(?:[\d.]+|inf|nan) +)+)\]\n")
_FUNCTION = b"Function: "


@dataclass(frozen=True, slots=True, kw_only=True)
class IR2VecTool:
    """An `llvm-ir2vec` program."""

    program: Path

    @classmethod
    def find(cls) -> Self:
        """That of the newest LLVM which has one.

        Raises:
            ToolchainError: there is none.
        """
        for llvm in find_llvms():
            program = llvm.tool("llvm-ir2vec") if llvm.major >= FIRST_MAJOR else None
            if program:
                return cls(program=program)
        raise ToolchainError("no llvm-ir2vec was found", hint="Debian: apt-get install llvm-22-tools")

    def output(self, *arguments: str | Path) -> bytes:
        """What the tool prints.

        Raises:
            CorpusError: it fails.
        """
        finished = run([self.program, *arguments], limit_s=TOOL_LIMIT_S)
        if finished.returncode:
            said = finished.stderr.decode(errors="replace").strip().splitlines()
            raise CorpusError(f"llvm-ir2vec: {said[0] if said else f'exit code {finished.returncode}'}")
        return finished.stdout

    def embed(self, module: Path, vocabulary: Path, *, level: Level, kind: Kind) -> Embeddings:
        """The printed vectors of an IR module, `precision` two decimals.

        The tool does not print block numbers: at instruction level `block` is -1 and `instruction` counts in the
        function. `function` counts the functions that have a body.

        Raises:
            SpecError: a level or kind that the tool lacks.
            CorpusError: the tool fails.
        """
        if level not in _LEVELS or kind == Kind.FLOW_NORMALIZED:
            raise SpecError(f"llvm-ir2vec has no level {level} of kind {kind}", hint="that takes the native core")
        printed = self.output(
            "embeddings",
            f"--level={_LEVELS[level]}",
            f"--ir2vec-kind={kind}",
            f"--ir2vec-vocab-path={vocabulary}",
            module,
        )
        return _parsed(printed, level, kind)


def _parsed(printed: bytes, level: Level, kind: Kind) -> Embeddings:
    names: list[str] = []
    rows: list[list[float]] = []
    function: list[int] = []
    position: list[int] = []
    labels: list[str] = []
    end = 0
    for match in _VECTOR.finditer(printed):
        label = printed[end : match.start()]
        end = match.end()
        if label.startswith(_FUNCTION):
            name, _, label = label.removeprefix(_FUNCTION).partition(b"\n")
            names.append(name.decode("utf-8", "surrogateescape"))
        rows.append([float(each) for each in match[1].split()])
        position.append(position[-1] + 1 if function and function[-1] == len(names) - 1 else 0)
        function.append(len(names) - 1)
        labels.append(label.decode("utf-8", "surrogateescape").removesuffix(":"))
    numbers = np.array(position, np.int32)
    return Embeddings(
        level=level,
        kind=kind,
        precision=Precision.TWO_DECIMALS,
        vectors=np.array(rows).reshape(len(rows), -1),
        function=np.array(function, np.int32),
        block=numbers if level == Level.BLOCK else no_index(len(rows)),
        instruction=numbers if level == Level.INSTRUCTION else no_index(len(rows)),
        function_names=tuple(names),
        block_name=tuple(labels) if level == Level.BLOCK else (),
    )
