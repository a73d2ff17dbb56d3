"""What a command line of a C compiler's driver compiles, and into which file.

The compiler shim of `record` runs this for every compile, so it imports next to nothing.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself takes as long to import as everything else here
    from collections.abc import Iterator

VALUE_FLAGS = frozenset(
    """
    -o --output -x -I -D -U -L -l -F -B -b -u -z -e -T -G -A -V -h -R
    -include -imacros -include-pch -isystem -iquote -idirafter -iprefix -iwithprefix -iwithprefixbefore -isysroot
    -iframework -ivfsoverlay -isystem-after -cxx-isystem -c-isystem -imultilib -internal-isystem
    -MF -MT -MQ -MJ -Xclang -Xpreprocessor -Xassembler -Xlinker -Xanalyzer -Xarch_host -Xarch_device -Xopenmp-target
    -mllvm -mmlir -arch -target -aux-info -dumpbase -dumpdir -dumpbase-ext -framework -weak_framework
    -install_name -compatibility_version -current_version -undefined -rpath -specs -wrapper
    --param --sysroot --include-directory --define-macro --undefine-macro --language --target --gcc-toolchain
    --serialize-diagnostics -fmodule-file-home-is-cwd -working-directory -gcc-toolchain -index-store-path
    """.split()  # noqa: SIM905 - a table of words
)
"""Flags of clang's and GCC's drivers whose value is the next argument."""

LANGUAGES = {
    ".c": "c", ".i": "c",
    ".C": "c++", ".cc": "c++", ".cp": "c++", ".cpp": "c++", ".CPP": "c++", ".cxx": "c++", ".CXX": "c++", ".c++": "c++",
    ".C++": "c++", ".ii": "c++", ".cppm": "c++", ".ccm": "c++", ".cxxm": "c++", ".c++m": "c++", ".ixx": "c++",
    ".m": "objective-c", ".mi": "objective-c", ".mm": "objective-c++", ".M": "objective-c++", ".mii": "objective-c++",
    ".s": "assembler", ".S": "assembler", ".asm": "assembler", ".sx": "assembler",
    ".ll": "ir", ".bc": "ir",
}  # fmt: skip
"""Source suffixes, as clang's driver knows them; every other file is for the linker."""

C_FAMILY = frozenset({"c", "c++", "objective-c", "objective-c++"})

NO_OBJECT_FLAGS = frozenset(
    """
    -E -S -M -MM -fsyntax-only -emit-llvm --precompile -emit-ast -emit-pch -emit-interface-stubs --analyze
    --preprocess --assemble --verify-debug-info -rewrite-objc --version -dumpversion -dumpmachine -###
    """.split()  # noqa: SIM905 - a table of words
)
"""With one of these a driver makes something other than an object of machine code."""

MOST_RESPONSE_FILES = 1000
LARGEST_RESPONSE_BYTES = 64 << 20

_TOKEN = re.compile(r"""(?:[^\s"'\\]+|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+""", re.DOTALL)
_QUOTED = re.compile(r"""\\(.)|"((?:[^"\\]|\\.)*)"|'([^']*)'""", re.DOTALL)


class DriverLine:
    """One parsed command line.

    Attributes:
        sources: the source files, each with its language.
        output: the value of `-o`, or None.
        compiles: it stops after making objects (`-c`), so each source gives an object file that stays.
        makes_objects: it makes machine code at all, be it only to link it.
        lto: objects hold LLVM IR instead of machine code.
        embeds_bitcode: an `-fembed-bitcode` is there already.
    """

    __slots__ = ("compiles", "embeds_bitcode", "lto", "makes_objects", "output", "sources")

    def __init__(self, arguments: list[str]) -> None:
        self.sources: list[tuple[str, str]] = []
        self.output: str | None = None
        self.compiles = False
        self.makes_objects = True
        self.lto = False
        self.embeds_bitcode = False
        self._read(arguments)

    def _read(self, arguments: list[str]) -> None:
        language: str | None = None
        for is_input, words in argument_groups(arguments[1:]):
            argument, value = words[0], words[-1]
            if is_input:
                self._add_input(argument, language)
                continue
            match argument:
                case "-c" | "--compile":
                    self.compiles = True
                case "-o" | "--output":
                    self.output = self.output or value
                case "-x" | "--language":
                    language = None if value == "none" else value
                case "-Xclang":
                    self._flag(value)
                case _:
                    self._flag(argument)
                    if argument.startswith("-x") and len(argument) > 2:
                        language = None if argument == "-xnone" else argument[2:]

    def _flag(self, argument: str) -> None:
        if argument.startswith("--output="):
            self.output = self.output or argument[9:]
        elif argument.startswith("-o") and not argument.startswith("-objc") and argument not in VALUE_FLAGS:
            self.output = self.output or argument[2:]
        elif argument in NO_OBJECT_FLAGS:
            self.makes_objects = False
        elif argument.startswith("-flto"):
            self.lto = True
        elif argument == "-fno-lto":
            self.lto = False
        elif argument.startswith("-fembed-bitcode"):
            self.embeds_bitcode = True

    def _add_input(self, path: str, language: str | None) -> None:
        if language is not None:
            self.sources.append((path, "assembler" if language.startswith("assembler") else language))
            return
        known = LANGUAGES.get(os.path.splitext(path)[1])
        if known:
            self.sources.append((path, known))

    def objects(self) -> list[tuple[str, str, str]]:
        """Each object that the line leaves behind: (source, language, object), paths as the line spells them."""
        if not (self.compiles and self.makes_objects):
            return []
        return [(source, language, self.output or default_object(source)) for source, language in self.sources]


def argument_groups(arguments: list[str]) -> Iterator[tuple[bool, list[str]]]:
    """The arguments after the compiler's name, a flag together with its value: (is an input file, words)."""
    position, only_inputs = 0, False
    while position < len(arguments):
        argument = arguments[position]
        size = 2 if argument in VALUE_FLAGS and not only_inputs else 1
        words = arguments[position : position + size]
        position += size
        if argument == "--" and not only_inputs:
            only_inputs = True
        else:
            yield only_inputs or argument == "-" or not argument.startswith("-"), words


def default_object(source: str) -> str:
    """Where a driver puts a source's object when it is not told: in its working directory."""
    stem = os.path.splitext(os.path.basename(source))[0]
    return f"{stem}.o"


def split_shell(line: str) -> list[str]:
    """The words of a shell command without expansions, as `shlex.split` gives them and many times faster.

    Raises:
        ValueError: a quote is not closed.
    """
    if not ("\\" in line or '"' in line or "'" in line):
        return line.split()
    words = []
    end = 0
    for match in _TOKEN.finditer(line):
        if line[end : match.start()].strip():
            break
        word = match.group()
        words.append(_QUOTED.sub(_unquote, word) if "\\" in word or '"' in word or "'" in word else word)
        end = match.end()
    if line[end:].strip():
        raise ValueError(f"a quote is not closed: …{line[end:].strip()[:60]}")
    return words


def _unquote(match: re.Match[str]) -> str:
    escaped, double, single = match.groups()
    if escaped is not None:
        return escaped
    if double is not None:
        return re.sub(r'\\(["\\])', r"\1", double)
    return single


def expand_response_files(arguments: list[str], directory: str) -> list[str]:
    """`arguments` with every readable `@file` replaced by its words, nested ones too, as LLVM's drivers do.

    A file that cannot be read, or that names itself, stays as it is spelled: the driver would take it so.
    """
    if not any(each.startswith("@") for each in arguments):
        return arguments
    return _Expansion(directory).expand(arguments, ())


class _Expansion:
    """One expansion, with a limit for files that multiply."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.opened = 0

    def expand(self, arguments: list[str], open_files: tuple[str, ...]) -> list[str]:
        expanded: list[str] = []
        for argument in arguments:
            words = self._words(argument, open_files) if argument.startswith("@") else None
            expanded.extend([argument] if words is None else words)
        return expanded

    def _words(self, argument: str, open_files: tuple[str, ...]) -> list[str] | None:
        path = os.path.join(self.directory, argument[1:])
        self.opened += 1
        if path in open_files or self.opened > MOST_RESPONSE_FILES:
            return None
        try:
            if not os.path.isfile(path) or os.path.getsize(path) > LARGEST_RESPONSE_BYTES:
                return None
            with open(path, encoding="utf-8", errors="surrogateescape") as stream:
                words = split_shell(stream.read())
        except (OSError, ValueError):
            return None
        return self.expand(words, (*open_files, path))
