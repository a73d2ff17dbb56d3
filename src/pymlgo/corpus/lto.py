"""Command lines for bitcode that carries none: what clang's own driver would give to `-cc1`."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from pathlib import Path

from pymlgo.corpus.bitcode import module_info
from pymlgo.corpus.candidates import Candidate, Reason
from pymlgo.corpus.description import join_command
from pymlgo.corpus.driver_line import argument_groups, expand_response_files
from pymlgo.corpus.embedded import NoModule
from pymlgo.errors import ToolchainError
from pymlgo.toolchain.llvm import find_llvm
from pymlgo.toolchain.process import run

DRIVER_LIMIT_S = 60.0

_CLANG = re.compile(r"(.*-)?clang(\+\+)?(-[0-9.]+)?")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)

_DROPPED = ("-flto", "-fno-lto", "-ffat-lto-objects", "-fembed-bitcode", "-fthinlto-index", "-W", "-M", "-save-temps")
_DROPPED_WITH_VALUE = frozenset(
    """
    -o --output -x -D -U -I -include -imacros -isystem -iquote -idirafter -MF -MT -MQ -L -l -Xlinker
    """.split()  # noqa: SIM905 - a table of words
)
_DROPPED_JOINED = ("-D", "-U", "-I", "-isystem", "-iquote", "-L", "-l", "-o", "--output=")


def command_for_ir(candidate: Candidate, bitcode: bytes) -> bytes:
    """The content of the `.cmd` file for the LLVM IR of an `-flto` build.

    With the command that compiled it, its flags for code generation; without, clang's defaults for the module's target
    at `-O2` (functions that are to be small say so themselves).

    Raises:
        NoModule: no clang is there to ask.
    """
    if candidate.command:
        expanded = expand_response_files(list(candidate.command), candidate.base)
        clang, flags = expanded[0], code_generation_flags(expanded[1:])
    else:
        triple = module_info(bitcode).triple
        clang, flags = "", ["-O2", *([f"--target={triple}"] if triple else [])]
    try:
        return join_command(cc1_arguments(_clang_to_ask(clang), tuple(flags)))
    except ToolchainError as error:
        raise NoModule(Reason.NO_LTO_COMMAND, str(error)) from None


def code_generation_flags(arguments: Sequence[str]) -> list[str]:
    """A driver's arguments without inputs, outputs, preprocessor, warnings, linker and LTO."""
    kept: list[str] = []
    for is_input, words in argument_groups(list(arguments)):
        flag = words[0]
        if is_input or flag in _DROPPED_WITH_VALUE or flag == "-c" or flag.startswith(_DROPPED + _DROPPED_JOINED):
            continue
        if flag == "-Xclang" and words[-1].startswith("-fembed-bitcode"):
            continue
        kept += words
    return kept


@functools.lru_cache(maxsize=1024)
def cc1_arguments(clang: str, flags: tuple[str, ...]) -> tuple[bytes, ...]:
    """What `clang FLAGS -c -x ir` hands to `-cc1`, without input and output.

    Raises:
        ToolchainError: clang cannot be run, or refuses the flags.
    """
    command = [clang, "-###", *flags, "-c", "-x", "ir", os.devnull, "-o", os.devnull]
    finished = run(command, limit_s=DRIVER_LIMIT_S)
    for line in finished.stderr.decode("utf-8", "surrogateescape").splitlines():
        if '"-cc1"' in line:
            words = [re.sub(r"\\(.)", r"\1", each) for each in _QUOTED.findall(line)]
            return tuple(each.encode("utf-8", "surrogateescape") for each in _without_files(words[1:]))
    raise ToolchainError(
        f"{Path(clang).name} does not say how it would compile LLVM IR",
        command=command,
        stderr_tail=finished.stderr.decode(errors="replace"),
    )


def _without_files(words: list[str]) -> list[str]:
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in ("-o", "-x", "-main-file-name", "-resource-dir"):
            next(rest, None)
        elif word != os.devnull and not word.startswith(("-fdebug-compilation-dir=", "-fcoverage-compilation-dir=")):
            kept.append(word)
    return kept


@functools.lru_cache(maxsize=64)
def _clang_to_ask(compiler: str) -> str:
    """The build's own compiler if it is a clang that is still there, else the newest clang of this machine."""
    if _CLANG.fullmatch(os.path.basename(compiler)) and os.path.isabs(compiler) and os.access(compiler, os.X_OK):
        return compiler
    return str(find_llvm().clang)
