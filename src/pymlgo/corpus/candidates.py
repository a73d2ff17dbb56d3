"""What an input offers for extraction, and why something it names does not become a module."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why something that an input names is not in the corpus. The value is what reports print."""

    MALFORMED_ENTRY = "malformed-entry"
    NAMES_NO_OBJECT = "names-no-object"
    MISSPELLED_FLAG = "misspelled-flag"
    NO_LINK = "no-link"
    DUPLICATE = "duplicate"
    MISSING = "missing-object"
    UNREADABLE = "unreadable"
    OUTSIDE = "link-outside-input"
    ASSEMBLY = "assembly"
    NOT_AN_OBJECT = "not-an-object"
    DAMAGED = "damaged-object"
    NO_BITCODE = "no-bitcode-section"
    NO_COMMAND = "no-command-section"
    EMPTY_BITCODE = "empty-bitcode"
    NOT_BITCODE = "not-bitcode"
    MERGED = "merged-beyond-splitting"
    OPTIMIZED = "post-optimization"
    OTHER_LEVEL = "other-optimization-level"
    FILTERED = "filtered"
    NO_INDEX = "no-thinlto-index"
    NO_LTO_COMMAND = "lto-without-command"
    OBJCOPY_FAILED = "objcopy-failed"
    UNWRITABLE = "unwritable"


EXPLANATIONS: dict[Reason, str] = {
    Reason.MALFORMED_ENTRY: "the entry of the input has not the shape that it must have",
    Reason.NAMES_NO_OBJECT: "the command makes no object file",
    Reason.MISSPELLED_FLAG: "clang refuses -fembed-bitcode-all; the flag is -fembed-bitcode=all (after -Xclang)",
    Reason.NO_LINK: "no CppLink action is there",
    Reason.DUPLICATE: "the same object is named twice",
    Reason.MISSING: "the object does not exist; was the build finished, and is it still there?",
    Reason.UNREADABLE: "the file cannot be read",
    Reason.OUTSIDE: "a symbolic link leads out of the input folder",
    Reason.ASSEMBLY: "assembled, so there is no bitcode",
    Reason.NOT_AN_OBJECT: "neither an ELF, Mach-O or COFF object nor bitcode",
    Reason.DAMAGED: "the object or its bitcode is damaged",
    Reason.NO_BITCODE: "no embedded bitcode: it was compiled without -Xclang -fembed-bitcode=all",
    Reason.NO_COMMAND: "bitcode, but no command line: -Xclang -fembed-bitcode=bitcode leaves it out, =all does not",
    Reason.EMPTY_BITCODE: "the bitcode section is empty, as -fembed-bitcode=marker makes it",
    Reason.NOT_BITCODE: "the bitcode section holds something else",
    Reason.MERGED: "modules merged by `ld -r` whose bitcode and command lines do not pair up",
    Reason.OPTIMIZED: "the bitcode is already optimized (the driver's -fembed-bitcode instead of -Xclang's)",
    Reason.OTHER_LEVEL: "compiled at another optimization level than the wanted one",
    Reason.FILTERED: "no argument matches the command filter, or not the source the source filter",
    Reason.NO_INDEX: "the ThinLTO index is missing",
    Reason.NO_LTO_COMMAND: "LLVM IR of an -flto build, and no clang was found to work out its command line",
    Reason.OBJCOPY_FAILED: "llvm-objcopy failed",
    Reason.UNWRITABLE: "the module's files cannot be written",
}
"""A sentence for each reason, for the reader who has never seen it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An object that may become a module.

    Attributes:
        name: the module's name, safe; unique once `resolve_names` has seen it.
        path: the object file.
        base: the folder that paths in the object's command line are relative to.
        start: where the object begins in `path`; not 0 in an archive.
        length: its bytes from there; None for the whole file.
        source: the source file, absolute where the input tells.
        language: of the source, as the driver knows it.
        command: the driver's command line; kept only for LLVM IR objects, which carry none.
        index: the ThinLTO index beside a module of local ThinLTO.
        native: the object that lld made of it, if it was kept.
    """

    name: str
    path: str
    base: str = ""
    start: int = 0
    length: int | None = None
    source: str = ""
    language: str = ""
    command: tuple[str, ...] = ()
    index: str | None = None
    native: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Something that the input names and that is not in the corpus."""

    what: str
    reason: Reason
    detail: str = ""
