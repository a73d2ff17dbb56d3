"""Local ThinLTO: the modules that lld saved while it linked, and the command line that compiles them as it did."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pymlgo.corpus.bitcode import BitcodeError, module_info
from pymlgo.corpus.candidates import Candidate, Skipped
from pymlgo.corpus.compare import Verdict, compare_objects
from pymlgo.corpus.description import UNSPECIFIED, Module
from pymlgo.corpus.embedded import NoModule, opened
from pymlgo.corpus.extract import ExtractOptions, extract
from pymlgo.corpus.extract_result import ExtractResult
from pymlgo.corpus.lto import cc1_arguments
from pymlgo.corpus.names import safe_name
from pymlgo.corpus.object_file import ObjectError
from pymlgo.corpus.verify import ReplayError, replay
from pymlgo.corpus.walk import Found, walk
from pymlgo.errors import CorpusError, ToolchainError
from pymlgo.toolchain.llvm import LLVM, find_llvm

IMPORTED_SUFFIX, INDEX_SUFFIX = ".3.import.bc", ".thinlto.bc"

CHOSEN_ON = 3
"""Modules on which each possible command line is tried; enough to tell them apart."""

CHECKED_ON = 40
"""Modules on which the chosen one is checked; `mlgo corpus verify` checks all."""

SECTIONS = ("-ffunction-sections", "-fdata-sections")
"""lld's code generator for LTO has both on.

Source: lld/ELF/LTO.cpp, createConfig (LLVM 22).
"""

POSITIONS, LEVELS = ("-fPIE", "-fPIC", "-fno-pic"), ("-O2", "-O3", "-O1", "-O0")
"""What is linked (a program, a shared library, a program at a fixed address) and lld's `--lto-O`, the likeliest first.

A program at -Os or -Oz is linked at `--lto-O2`; its functions carry the attributes that make them small.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """A command line for all modules: on how many it was checked against lld's own objects, and matched them."""

    command: tuple[str, ...]
    checked: int
    matching: int


def extract_local(build_dir: Path, output_dir: Path, options: ExtractOptions) -> ExtractResult:
    """Extract the modules of a local ThinLTO build (`-Wl,--save-temps=import -Wl,--thinlto-emit-index-files`).

    The description's `global_command_override` is worked out: clang's command lines for the kinds of program that lld
    links are tried until one gives the very objects that lld made, where these were kept
    (`-Wl,--save-temps=prelink`).

    Source: mlgo-utils writes "<UNSPECIFIED>" there, for the user to replace.

    Raises:
        CorpusError: `build_dir` is no folder, or the output cannot be written.
    """
    offers = list(_saved_modules(build_dir))
    candidates = [each for each in offers if isinstance(each, Candidate)]
    hints: list[str] = []
    override: Override | None = None
    try:
        override = find_override(candidates, find_llvm())
    except (ToolchainError, CorpusError) as error:
        hints.append(f"no command line could be worked out ({error}); fill in global_command_override by hand")
    if override is not None:
        hints += _override_hints(override)
    result = extract(
        offers,
        output_dir,
        options,
        source={"input": str(build_dir), "type": "thinlto-local"},
        command_override=override.command if override else (UNSPECIFIED,),
    )
    return replace(
        result,
        hints=(*result.hints, *hints),
        override_checked=override.checked if override else 0,
        override_matching=override.matching if override else 0,
    )


def find_override(candidates: Sequence[Candidate], llvm: LLVM) -> Override:
    """The command line that compiles the modules as lld did.

    Raises:
        CorpusError: no module can be read.
        ToolchainError: clang does not run.
    """
    triple = _triple_of(candidates)
    tries = [
        cc1_arguments(str(llvm.clang), (f"--target={triple}", level, *sections, position))
        for sections, level, position in itertools.product((SECTIONS, ()), LEVELS, POSITIONS)
    ]
    referenced = [each for each in candidates if each.native]
    if not referenced:
        return Override(command=_text(tries[0]), checked=0, matching=0)
    sample = _spread(sorted(referenced, key=_size_of), CHOSEN_ON)
    best = max(tries, key=_Matches(sample, llvm))  # the first of equals
    checked = _spread(referenced, CHECKED_ON)
    return Override(command=_text(best), checked=len(checked), matching=_Matches(checked, llvm)(best))


class _Matches:
    """How many of the candidates a command line compiles as lld did; all of them ends the search early."""

    def __init__(self, candidates: Sequence[Candidate], llvm: LLVM) -> None:
        self.candidates = candidates
        self.llvm = llvm
        self.perfect = False

    def __call__(self, command: tuple[bytes, ...]) -> int:
        if self.perfect:
            return 0
        matching = sum(_matches(each, command, self.llvm) for each in self.candidates)
        self.perfect = matching == len(self.candidates)
        return matching


def _matches(candidate: Candidate, command: tuple[bytes, ...], llvm: LLVM) -> bool:
    module = Module(
        name=candidate.name,
        bitcode=Path(candidate.path),
        command=command,
        thinlto_index=Path(candidate.index or ""),
        size_bytes=0,
    )
    try:
        with tempfile.TemporaryDirectory(prefix="mlgo-thinlto-") as folder:
            replayed, _ = replay(module, llvm.clang, Path(folder))
        with opened(candidate.native) as source:
            verdict, _ = compare_objects(source.read(0, source.size), replayed)
    except (ReplayError, NoModule, ObjectError):
        return False
    return verdict is not Verdict.DIFFERENT


def _saved_modules(build_dir: Path) -> Iterator[Candidate | Skipped]:
    natives = _natives(build_dir)
    for found in walk(build_dir, (IMPORTED_SUFFIX,)):
        if isinstance(found, Found):
            stem = found.path.removesuffix(IMPORTED_SUFFIX)
            name = safe_name(found.name.removesuffix(IMPORTED_SUFFIX) or "unnamed")
            yield Candidate(name=name, path=found.path, index=stem + INDEX_SUFFIX, native=natives.get(stem, ""))
        else:
            yield found


def _natives(build_dir: Path) -> dict[str, str]:
    """The objects that lld kept, by the path of the input that each was made of.

    lld writes the object of the input `d/x.o` of a link `-o prog` as `d/prog.lto.x.o`.
    """
    found: dict[str, str] = {}
    for each in walk(build_dir, (".o",)):
        if isinstance(each, Found) and ".lto." in os.path.basename(each.path):
            folder, base = os.path.split(each.path)
            stem = base.partition(".lto.")[2].removesuffix(".o")
            for input_name in (stem, f"{stem}.o"):
                found.setdefault(os.path.join(folder, input_name), each.path)
    return found


def _triple_of(candidates: Sequence[Candidate]) -> str:
    for candidate in candidates:
        try:
            with opened(candidate.path) as source:
                triple = module_info(source.read(0, source.size)).triple
        except (NoModule, BitcodeError):
            continue
        if triple:
            return triple
    raise CorpusError("none of the modules can be read")


def _size_of(candidate: Candidate) -> int:
    try:
        return os.path.getsize(candidate.path)
    except OSError:
        return 0


def _spread(candidates: Sequence[Candidate], count: int) -> list[Candidate]:
    """`count` of the candidates, evenly over the sequence and with its last."""
    if len(candidates) <= count:
        return list(candidates)
    return [candidates[(number + 1) * len(candidates) // count - 1] for number in range(count)]


def _text(command: tuple[bytes, ...]) -> tuple[str, ...]:
    return tuple(each.decode("utf-8", "surrogateescape") for each in command)


def _override_hints(override: Override) -> list[str]:
    if not override.checked:
        return [
            "the generated command line is not checked: link with -Wl,--save-temps=prelink too, to keep lld's objects"
        ]
    if override.matching < override.checked:
        return [
            f"the generated command line gives lld's objects for {override.matching} of {override.checked} modules; "
            "linker flags such as -Wl,-mllvm must be added to global_command_override by hand"
        ]
    return []
