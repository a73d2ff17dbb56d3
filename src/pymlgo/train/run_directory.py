"""`runs/<id>/`: what a run was asked (run.toml), what happened (events.jsonl), and how to go on (checkpoint.npz)."""

from __future__ import annotations

import datetime
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pymlgo import __version__, atomic_file
from pymlgo.errors import ConfigError

CONFIG_FILE = "run.toml"
EVENTS_FILE = "events.jsonl"
CHECKPOINT_FILE = "checkpoint.npz"

Setting = str | int | float | bool | tuple[str, ...] | None
"""What a run's configuration holds; None is left out of the file."""


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """The folder of one run."""

    path: Path

    @classmethod
    def create(cls, root: Path, name: str, settings: Mapping[str, Setting]) -> RunDirectory:
        """A new folder `<root>/<time>-<name>`, with `settings` and this package's version in its run.toml."""
        stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        for attempt in range(1000):
            run = cls(root / f"{stamp}-{name}{f'-{attempt}' if attempt else ''}")
            try:
                run.path.mkdir(parents=True)
            except FileExistsError:
                continue
            except OSError as error:
                raise ConfigError(f"the run's folder cannot be made: {error.strerror}", file=run.path) from error
            atomic_file.write_text(run.path / CONFIG_FILE, to_toml({"pymlgo": __version__, **settings}))
            return run
        raise ConfigError("a thousand runs have this name and second", file=root)

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """The folder of an earlier run.

        Raises:
            ConfigError: it is none.
        """
        if not (path / CONFIG_FILE).is_file():
            raise ConfigError(f"is no run: it has no {CONFIG_FILE}", file=path, hint="`mlgo runs list` shows the runs")
        return cls(path)

    @property
    def checkpoint(self) -> Path:
        """Where the state is kept."""
        return self.path / CHECKPOINT_FILE

    def policy(self, number: int) -> Path:
        """The directory of the candidate `number` that was the best when it was judged; 0 is LLVM's default."""
        return self.path / f"policy-{number}"

    def settings(self) -> dict[str, object]:
        """What run.toml says.

        Raises:
            ConfigError: it cannot be read.
        """
        file = self.path / CONFIG_FILE
        try:
            return tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot be read: {error}", file=file) from error

    def check_settings(self, wanted: Mapping[str, Setting]) -> None:
        """Accept a resumption under the same settings only.

        Raises:
            ConfigError: one differs; it is named with both values.
        """
        known = self.settings()
        for key, value in wanted.items():
            plain = list(value) if isinstance(value, tuple) else value
            if known.get(key) != plain:
                raise ConfigError(
                    f"the run was started with {known.get(key)!r}, now it is {plain!r}",
                    file=self.path / CONFIG_FILE,
                    key=key,
                    hint="resume with what the run was started with, or start a new run",
                )

    def event(self, facts: Mapping[str, object]) -> None:
        """Append one line to events.jsonl; "event" is its kind.

        Raises:
            ConfigError: it cannot be written.
        """
        file = self.path / EVENTS_FILE
        line = json.dumps({"time": _now(), **facts}, allow_nan=False)
        try:
            with file.open("a", encoding="utf-8") as stream:
                stream.write(line + "\n")
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise ConfigError(
                f"cannot be written: {error.strerror}",
                file=file,
                hint=f"make room, and go on with --resume {self.path}",
            ) from error

    def events(self) -> list[dict[str, object]]:
        """What happened; a last line that a crash cut short is left out."""
        file = self.path / EVENTS_FILE
        found = []
        for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found


def to_toml(settings: Mapping[str, Setting]) -> str:
    """A flat TOML table; None is left out."""
    return "".join(f"{key} = {_toml_value(value)}\n" for key, value in settings.items() if value is not None)


def _toml_value(value: Setting) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml_value(each) for each in value) + "]"
    if isinstance(value, str):
        # TOML's basic strings are JSON's, but DEL has to be escaped and surrogates cannot be.
        return json.dumps(value.encode("utf-8", "replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _now() -> str:
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")
