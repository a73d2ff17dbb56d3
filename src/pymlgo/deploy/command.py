"""What a clang command line compiles, and to which objects: as much of it as `-c` commands need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

_SUFFIXES = ".c .i .cc .cp .cxx .cpp .c++ .C .CPP .ii .m .mm .M .mi .mii .bc .ll .cppm .ixx .cu .hip"
SOURCE_SUFFIXES = frozenset(_SUFFIXES.split())
"""Source: types::lookupTypeForExtension (clang 22), languages that reach LLVM's inliner."""

_WITH_VALUE = (
    "-o -x -D -U -I -L -l -F -T -u -z -e -h -b -V -G -A -include -imacros -iquote -isystem -idirafter -iprefix "
    "-iwithprefix -iwithprefixbefore -isysroot -iframework -ivfsoverlay -MF -MT -MQ -MJ -Xclang -Xlinker -Xassembler "
    "-Xpreprocessor -Xanalyzer -mllvm -target -arch -framework -cxx-isystem -dumpdir -plugin-arg -rpath "
    "--param --sysroot --config -serialize-diagnostics -working-directory -current_version -install_name"
)
WITH_VALUE = frozenset(_WITH_VALUE.split())
"""Options whose value is the next word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledObject:
    """One source of a command and the object that comes of it."""

    source: str
    object: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileCommand:
    """A `-c` command.

    Attributes:
        objects: in the order of the sources.
        output: the word after -o; None where each object is named after its source.
        others: the arguments without sources, -c and -o.
    """

    objects: tuple[CompiledObject, ...]
    output: str | None
    others: tuple[str, ...]

    def single(self, source: str, output: str) -> list[str]:
        """The arguments that compile one of the sources to another place."""
        return [*self.others, "-c", source, "-o", output]


def parse_compile(arguments: Sequence[str]) -> CompileCommand | None:
    """The command as far as it compiles sources to objects; None for anything else (linking, -S, -E, @files)."""
    sources: list[str] = []
    others: list[str] = []
    output: str | None = None
    compiles = False
    words = iter(arguments)
    for word in words:
        if word in ("-S", "-E", "-M", "-MM", "-fsyntax-only", "-emit-llvm", "-###") or word.startswith("@"):
            return None
        if word == "-c":
            compiles = True
        elif word == "-o":
            output = next(words, None)
        elif word.startswith("-o") and word != "-object":
            output = word[2:]
        elif word in WITH_VALUE:
            others += [word, next(words, "")]
        elif not word.startswith("-") and PurePath(word).suffix in SOURCE_SUFFIXES:
            sources.append(word)
        else:
            others.append(word)
    if not compiles or not sources or (output is not None and len(sources) > 1):
        return None
    objects = [CompiledObject(source=each, object=output or PurePath(each).stem + ".o") for each in sources]
    return CompileCommand(objects=tuple(objects), output=output, others=tuple(others))
