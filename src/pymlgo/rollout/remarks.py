"""Who called whom: the names behind the questions of a channel, read from LLVM's optimization remarks.

The interactive channel sends features and no names. But `MLInlineAdvice` also writes one remark of the pass `inline-ml`
for each decision, in the order of the decisions, with caller, callee and the features once more. Asking stock clang for
these remarks leaves the object's bytes as they are and costs a few per cent of CPU time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pymlgo.arrays import Int64Array

REMARK_PASS = "inline-ml"

_RECORD = re.compile(
    rb"^Pass: +inline-ml\nName: +\w+\n(?:DebugLoc:[^}]*\}\n)?Function: +(?P<caller>.*)\n(?:Hotness:.*\n)?Args: *\n"
    rb"  - Callee: +(?P<callee>.*)\n(?:(?!---).*\n)*?  - ShouldInline: +'(?P<advice>true|false)'\n",
    re.MULTILINE,
)
"""One remark as LLVM's YAML writer lays it out.

Source: MLInlineAdvice::reportContextForRemark and YAMLRemarkSerializer (LLVM 19 and 22).
"""

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "e": "\x1b", "a": "\a", "b": "\b", "v": "\v", "f": "\f"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One decision: `caller` asked to inline `callee`, and was told `advice`."""

    caller: str
    callee: str
    advice: bool


def remark_flags(command: Sequence[bytes | str], file: Path, *, passes: str = REMARK_PASS) -> list[str]:
    """What `command` (of `replay_command`) needs besides, so that it writes the remarks of `passes` to `file`."""
    flags = ["-opt-record-file", str(file), "-opt-record-passes", passes, "-opt-record-format", "yaml"]
    if len(command) > 1 and command[1] in ("-cc1", b"-cc1"):
        return flags
    return [word for flag in flags for word in ("-Xclang", flag)]


def read_remarks(file: Path) -> list[Remark]:
    """The decisions' remarks, in order; empty if the compiler wrote no file, as it does when nothing was asked."""
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return []
    return [
        Remark(caller=_scalar(found["caller"]), callee=_scalar(found["callee"]), advice=found["advice"] == b"true")
        for found in _RECORD.finditer(text)
    ]


def pair_remarks(remarks: Sequence[Remark], advice: Int64Array) -> str | None:
    """None if `remarks` are those of the decisions `advice` i64[n]; else what does not fit."""
    if len(remarks) != len(advice):
        return f"{len(advice)} decisions, but {len(remarks)} remarks"
    for number, (remark, given) in enumerate(zip(remarks, advice, strict=True)):
        if remark.advice != bool(given):
            return f"decision {number} was {int(given)}, but its remark says {remark.advice}"
    return None


def _scalar(raw: bytes) -> str:
    """A YAML scalar: plain, 'single' or "double" quoted."""
    text = raw.decode("utf-8", "surrogateescape")
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    if text.startswith('"'):
        return re.sub(r"\\(x[0-9A-Fa-f]{2}|.)", _unescaped, text[1:-1])
    return text


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if code[0] == "x" and len(code) == 3 else _ESCAPES.get(code, code)
