"""Every implemented clause of docs/spec has a test, and every test names a clause that exists."""

from __future__ import annotations

import re

from conftest import ROOT

STATUSES = {"implemented", "planned", "not ours"}


def clauses() -> dict[str, str]:
    found: dict[str, str] = {}
    for file in sorted((ROOT / "docs/spec").glob("*.md")):
        if file.name == "README.md":
            continue
        for name, status in re.findall(r"^## (\S+)\nStatus: ([a-z ]+)", file.read_text(), re.MULTILINE):
            assert name not in found, f"{file.name}: clause {name} stands twice"
            found[name] = status
    return found


def clauses_named_by_tests() -> set[str]:
    sources = "".join(file.read_text() for file in (ROOT / "tests").rglob("*.py"))
    return set(re.findall(r'mark\.spec\(\s*"([^"]+)"', sources)) - {"corpus.input.json…"}


def test_statuses_are_known() -> None:
    assert set(clauses().values()) <= STATUSES


def test_every_implemented_clause_has_a_test() -> None:
    implemented = {name for name, status in clauses().items() if status == "implemented"}
    assert implemented, "no clause is implemented"
    assert implemented - clauses_named_by_tests() == set()


def test_every_test_names_a_known_clause() -> None:
    assert clauses_named_by_tests() - set(clauses()) == set()
