"""The policies that come with this package, and the one way from what a user calls a policy to where it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pymlgo.errors import PolicyError

FOLDER = Path(__file__).parent.with_name("policies")
"""A policy directory each, named as the policy is."""

OF_LEVEL: Mapping[str, str] = MappingProxyType({"-Oz": "inline-oz"})
"""The policy that `mlgo clang` takes where none is named, by the optimization level that it was trained for."""

POLICY_HELP = "a policy directory, or the name of a policy of this package (`mlgo policy list`)"


def shipped_policies() -> Mapping[str, Path]:
    """The directories of this package's policies by name, sorted."""
    return {file.parent.name: file.parent for file in sorted(FOLDER.glob("*/policy.json"))}


def find_policy(named: str) -> Path:
    """Where the policy is that a user calls `named`: one of this package by its name, anything else as a path.

    A name of this package wins over a directory of the same name; `./NAME` is the directory.

    Raises:
        PolicyError: neither is there.
    """
    shipped = shipped_policies()
    if named in shipped:
        return shipped[named]
    path = Path(named)
    if not path.exists():
        known = f"or a policy of this package: {', '.join(shipped)}" if shipped else "this package has none of its own"
        raise PolicyError(f"there is no policy {named!r}", hint=f"name a policy directory, {known}")
    return path


def default_policy(arguments: Sequence[str]) -> Path | None:
    """This package's policy for a command of clang with these arguments; None where it has none for them.

    What counts is the last optimization level: a policy says nothing about another than that which it was trained for.
    """
    level = next((each for each in reversed(arguments) if each.startswith("-O")), "")
    return shipped_policies().get(OF_LEVEL.get(level, ""))
