"""Never worse: compile with LLVM's default and with the policy, keep the smaller object."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pymlgo.corpus.object_file import ObjectError
from pymlgo.corpus.objects import ObjectSizes, object_sizes
from pymlgo.deploy.command import CompileCommand
from pymlgo.errors import ConfigError
from pymlgo.toolchain.process import run

COMPILE_LIMIT_S = 3600.0
"""Longer than any compile of one file that a build waits for."""

KEPT_FILE = "kept.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One object of a never-worse compile; sizes in bytes, `.text` decides, Berkeley text breaks ties.

    `reason` says why the policy's object was out of the question; "" where sizes decided.
    """

    object: str
    kept: Literal["policy", "default"]
    default_text_bytes: int
    policy_text_bytes: int
    default_berkeley_bytes: int
    policy_berkeley_bytes: int
    reason: str = ""

    @property
    def text_bytes(self) -> tuple[int, int]:
        """`.text` of the default's object, and of the one that was kept."""
        return self.default_text_bytes, self.policy_text_bytes if self.kept == "policy" else self.default_text_bytes


def compile_never_worse(
    advised: Sequence[str], clang: Path, command: CompileCommand, arguments: Sequence[str]
) -> tuple[int, tuple[Kept, ...]]:
    """Compile both ways; the exit code is that of the compile without advice, as is all that it says.

    Args:
        advised: the first words of the command with advice.
        clang: the clang without.
        command: the sources and objects in `arguments`.
        arguments: what the user gave; they run as they are, last, so that dependency files and the like are theirs.
    """
    with tempfile.TemporaryDirectory(prefix="mlgo-never-worse-") as name:
        candidates: dict[str, Path] = {}
        for number, each in enumerate(command.objects):
            candidate = Path(name, f"{number}.o")
            done = run([*advised, *command.single(each.source, str(candidate))], limit_s=COMPILE_LIMIT_S)
            if done.returncode == 0 and candidate.exists():
                candidates[each.object] = candidate
        code = os.spawnv(os.P_WAIT, clang, [str(clang), *arguments])
        if code != 0:
            return code if code > 0 else 128 - code, ()
        return 0, tuple(_keep(Path(each.object), candidates.get(each.object)) for each in command.objects)


def _keep(default: Path, candidate: Path | None) -> Kept:
    """The smaller of two objects becomes `default`."""
    try:
        plain = object_sizes(default.read_bytes())
    except (ObjectError, OSError) as error:
        return _kept(default, ObjectSizes(text_bytes=0, berkeley_bytes=0), None, f"the object has no size: {error}")
    if candidate is None:
        return _kept(default, plain, None, "the compile with the policy failed")
    advised = object_sizes(candidate.read_bytes())
    if (advised.text_bytes, advised.berkeley_bytes) >= (plain.text_bytes, plain.berkeley_bytes):
        return _kept(default, plain, advised)
    data = candidate.read_bytes()
    # In place: the file keeps its mode, owner and links, as a compiler leaves them.
    default.write_bytes(data)
    return _kept(default, plain, advised, policy=True)


def _kept(
    name: Path, plain: ObjectSizes, advised: ObjectSizes | None, reason: str = "", *, policy: bool = False
) -> Kept:
    sizes = advised or plain
    return Kept(
        object=str(name.absolute()),
        kept="policy" if policy else "default",
        default_text_bytes=plain.text_bytes,
        policy_text_bytes=sizes.text_bytes,
        default_berkeley_bytes=plain.berkeley_bytes,
        policy_berkeley_bytes=sizes.berkeley_bytes,
        reason=reason,
    )


def save_kept(folder: Path, kept: Sequence[Kept]) -> None:
    """Append what was kept to the table of a deployment; builds run many compilers at once, each line is one write."""
    descriptor = os.open(folder / KEPT_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        for each in kept:
            os.write(descriptor, (json.dumps(asdict(each)) + "\n").encode())
    finally:
        os.close(descriptor)


def read_kept(folder: Path) -> tuple[Kept, ...]:
    """The table of a deployment: the last line of each object, by object.

    Raises:
        ConfigError: there is no table, or it is damaged.
    """
    file = folder / KEPT_FILE
    latest: dict[str, Kept] = {}
    try:
        for line in file.read_text(encoding="utf-8").splitlines():
            kept = Kept(**json.loads(line))
            latest[kept.object] = kept
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror}", file=file, hint="mlgo clang --never-worse writes it"
        ) from error
    except (ValueError, TypeError) as error:
        raise ConfigError("is damaged", file=file) from error
    if not latest:
        raise ConfigError("is empty", file=file, hint="mlgo clang --never-worse writes it")
    return tuple(latest[name] for name in sorted(latest))
