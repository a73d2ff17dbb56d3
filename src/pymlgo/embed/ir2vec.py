"""The interface of the `ir2vec` packages, over this one: old programs run by changing their import.

```python
from pymlgo.embed import ir2vec

o = ir2vec.initEmbedding("file.bc", "fa", "f")          # as PyPI's ir2vec 2.1 has it
vectors = ir2vec.getInstructionVectors(o)

tool = ir2vec.initEmbedding(filename="file.bc", mode="sym", vocab=ir2vec.loadVocab("v.json"))  # as LLVM's binding
tool.getFuncEmbMap()
```

Departures: vectors are those of LLVM 22 (PyPI's package bundles LLVM 16, another vocabulary, and the paper's flow-aware
algorithm); the file is read once; bad input raises an `MLGOError` instead of ending the process; a block without a name
is called `#N`, and an instruction `#BLOCK:N`, where LLVM's binding lets those of equal text collide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pymlgo.arrays import Float64Array
from pymlgo.atomic_file import write_text
from pymlgo.embed.core import core
from pymlgo.embed.embeddings import Embeddings, Kind, Level
from pymlgo.embed.levels import embed
from pymlgo.embed.module import ParsedModule, read_ir
from pymlgo.embed.shipped import shipped_vocabulary
from pymlgo.embed.vocabulary import Vocabulary
from pymlgo.errors import SpecError

_KINDS: Mapping[str, Kind] = {
    "sym": Kind.SYMBOLIC,
    "fa": Kind.FLOW_AWARE,
    "symbolic": Kind.SYMBOLIC,
    "flow-aware": Kind.FLOW_AWARE,
}


def loadVocab(path: str | Path) -> Vocabulary:
    """The vocabulary of a JSON file.

    Raises:
        VocabularyError: see `Vocabulary.load`.
    """
    return Vocabulary.load(path)


def getVersion() -> str:
    """The version of this package."""
    from pymlgo import __version__

    return __version__


def initEmbedding(
    filename: str | Path,
    mode: str = "sym",
    level: str = "f",
    output_file: str | Path | None = None,
    *,
    vocab: Vocabulary | None = None,
    vocabPath: str | Path | None = None,
) -> IR2VecModule:
    """A module whose vectors can be asked for.

    Args:
        filename: bitcode or IR text.
        mode: `sym` or `fa`.
        level: `p` or `f`: what goes to `output_file`.
        output_file: a text file to write the program's or the functions' vectors to.
        vocab: the vocabulary; the package's own if neither this nor `vocabPath` is given.
        vocabPath: its file.

    Raises:
        SpecError: an unknown mode or level.
        CorpusError: the module cannot be read.
        VocabularyError: the vocabulary cannot be loaded.
    """
    if mode not in _KINDS or level not in ("p", "f"):
        raise SpecError(f"expected mode sym or fa and level p or f, found {mode!r} and {level!r}")
    vocabulary = vocab or (Vocabulary.load(vocabPath) if vocabPath else shipped_vocabulary())
    module = IR2VecModule(module=read_ir(Path(filename)), vocabulary=vocabulary, kind=_KINDS[mode])
    if output_file:
        write_text(Path(output_file), module.text(level))
    return module


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IR2VecModule:
    """A parsed module, a vocabulary and a kind."""

    module: ParsedModule
    vocabulary: Vocabulary
    kind: Kind

    def at(self, level: Level) -> Embeddings:
        """The vectors of a level."""
        return embed(self.module, self.vocabulary, level=level, kind=self.kind)

    def getProgramVector(self) -> list[float]:
        """The sum of all functions' vectors."""
        vector: list[float] = self.at(Level.MODULE).vectors[0].tolist()
        return vector

    def getFunctionVectors(self, name: str | None = None) -> dict[str, dict[str, str | list[float]]]:
        """By demangled name: `demangledName`, `actualName` and `vector`; of the function `name` alone where given."""
        found = self.at(Level.FUNCTION)
        result: dict[str, dict[str, str | list[float]]] = {}
        for actual, vector in zip(found.names, found.vectors.tolist(), strict=True):
            demangled = core().demangle(actual)
            if name in (None, actual, demangled, demangled.partition("(")[0]):
                result[demangled] = {"demangledName": demangled, "actualName": actual, "vector": vector}
        return result

    def getInstructionVectors(self) -> list[list[float]]:
        """The vectors of all instructions, in order."""
        rows: list[list[float]] = self.at(Level.INSTRUCTION).vectors.tolist()
        return rows

    def getFuncNames(self) -> list[str]:
        """The functions that have a body."""
        return self.at(Level.FUNCTION).names

    def getFuncEmbMap(self) -> dict[str, Float64Array]:
        """f64[dimension] by function."""
        found = self.at(Level.FUNCTION)
        return dict(zip(found.names, found.vectors, strict=True))

    def getFuncEmb(self, name: str) -> Float64Array:
        """f64[dimension] of one function.

        Raises:
            CorpusError: there is none of this name.
        """
        self.module.function(name)
        vector: Float64Array = self.at(Level.FUNCTION).of_function(name)[0]
        return vector

    def getBBEmbMap(self, name: str) -> dict[str, Float64Array]:
        """f64[dimension] by block of a function; `#N` for the N-th block where it has no name."""
        number = self.module.function(name).number
        found = self.at(Level.BLOCK)
        rows = [row for row, function in enumerate(found.function.tolist()) if function == number]
        return {found.block_name[row] or f"#{found.block[row]}": found.vectors[row] for row in rows}

    def getInstEmbMap(self, name: str) -> dict[str, Float64Array]:
        """f64[dimension] by instruction of a function: `#BLOCK:N` for the N-th of a block."""
        number = self.module.function(name).number
        found = self.at(Level.INSTRUCTION)
        rows = [row for row, function in enumerate(found.function.tolist()) if function == number]
        return {f"#{found.block[row]}:{found.instruction[row]}": found.vectors[row] for row in rows}

    def text(self, level: str) -> str:
        """Lines of tab-separated numbers, as the packages write them; before each function's its name."""
        if level == "p":
            return "\t".join(map(repr, self.getProgramVector())) + "\n"
        vectors = self.getFuncEmbMap().items()
        return "".join(f"{name} = \t" + "\t".join(map(repr, vector.tolist())) + "\n" for name, vector in vectors)


def getProgramVector(o: IR2VecModule) -> list[float]:
    """See `IR2VecModule.getProgramVector`."""
    return o.getProgramVector()


def getFunctionVectors(o: IR2VecModule, name: str | None = None) -> dict[str, dict[str, str | list[float]]]:
    """See `IR2VecModule.getFunctionVectors`."""
    return o.getFunctionVectors(name)


def getInstructionVectors(o: IR2VecModule) -> list[list[float]]:
    """See `IR2VecModule.getInstructionVectors`."""
    return o.getInstructionVectors()
