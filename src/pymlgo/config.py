"""Configuration: frozen dataclasses are the schema, TOML is the file, an unknown key is an error."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pymlgo.errors import ConfigError

T = TypeVar("T")


def load_config(schema: type[T], file: Path | None, flags: Mapping[str, object]) -> T:
    """`schema` filled from its defaults, then the TOML `file`, then `flags` (None there means "not given").

    Raises:
        ConfigError: the file is unreadable or no TOML, a key is unknown, or a value has the wrong type.
    """
    values = read_toml(file) if file else {}
    _check_keys(schema, values, file)
    values |= {key: value for key, value in flags.items() if value is not None}
    hints = typing.get_type_hints(schema)
    converted = {key: _convert(value, hints[key], file, key) for key, value in values.items()}
    try:
        return schema(**converted)
    except TypeError as error:
        raise ConfigError(str(error), file=file) from error


def read_toml(file: Path) -> dict[str, Any]:
    """What the TOML `file` says.

    Raises:
        ConfigError: it is unreadable, or no TOML.
    """
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"is not TOML: {error}", file=file) from error


def _check_keys(schema: type[Any], values: Mapping[str, object], file: Path | None) -> None:
    known = [field.name for field in dataclasses.fields(schema)]
    for key in values:
        if key not in known:
            nearest = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"known keys are {', '.join(known)}"
            raise ConfigError("unknown key", file=file, key=key, hint=hint)


def _convert(value: object, expected: Any, file: Path | None, key: str) -> object:
    allowed = typing.get_args(expected) if isinstance(expected, types.UnionType) else (expected,)
    plain = tuple(typing.get_origin(each) or each for each in allowed)
    if Path in plain and isinstance(value, str):
        return Path(value)
    if tuple in plain and isinstance(value, list):
        return tuple(value)
    if float in plain and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, plain) and not (isinstance(value, bool) and bool not in plain):
        return value
    wanted = " or ".join(getattr(each, "__name__", str(each)) for each in plain)
    raise ConfigError(f"expected {wanted}, found {value!r}", file=file, key=key)
