"""Policies of the package by name: what a user may call a policy, and what `mlgo clang` takes by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pymlgo.errors import PolicyError
from pymlgo.policy import shipped
from pymlgo.policy.directory import load_policy, save_policy
from pymlgo.policy.shapes import threshold_policy
from pymlgo.policy.shipped import default_policy, find_policy, shipped_policies


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "policies")
    save_policy(threshold_policy(), tmp_path / "policies/inline-oz")
    return tmp_path / "policies"


def test_a_name_of_the_package_wins_over_a_directory(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inline-oz").mkdir()
    assert find_policy("inline-oz") == folder / "inline-oz"
    assert find_policy("./inline-oz") == Path("inline-oz")


def test_what_is_not_there_is_said_with_the_names_that_are(folder: Path, run_mlgo) -> None:
    with pytest.raises(PolicyError, match="no policy 'inline-o3'") as caught:
        find_policy("inline-o3")
    assert "inline-oz" in str(caught.value.hint)
    code, out, err = run_mlgo("policy", "inspect", "inline-o3")
    assert (code, out) == (1, "")
    assert "hint: name a policy directory, or a policy of this package: inline-oz" in err


def test_a_package_without_policies_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_mlgo) -> None:
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "none")
    assert not shipped_policies()
    assert default_policy(["-Oz"]) is None
    code, out, err = run_mlgo("policy", "list")
    assert (code, out) == (0, "")
    assert "no policies" in err


@pytest.mark.parametrize(
    ("arguments", "is_for_them"),
    [
        (["-Oz", "-c", "x.c"], True),
        (["-O2", "-Oz"], True),
        (["-Oz", "-O2"], False),
        (["-Os"], False),
        ([], False),
    ],
)
def test_the_last_level_decides(folder: Path, arguments: list[str], is_for_them: bool) -> None:
    assert default_policy(arguments) == (folder / "inline-oz" if is_for_them else None)


def test_what_ships_is_whole() -> None:
    for name, folder in shipped_policies().items():
        policy = load_policy(folder)
        assert policy.provenance, name
        assert (folder / "MODEL_CARD.md").stat().st_size, name


def test_list_and_inspect_by_name(folder: Path, run_mlgo) -> None:
    code, out, _ = run_mlgo("policy", "list", "--json")
    found = json.loads(out)
    assert (code, found["schema"]) == (0, "pymlgo/policy-list-1")
    assert found["policies"]["inline-oz"]["problem"] == "inlining"
    code, out, _ = run_mlgo("policy", "list")
    assert (code, out.split()[:2]) == (0, ["inline-oz", "inlining"])
    code, out, _ = run_mlgo("policy", "inspect", "inline-oz")
    assert code == 0
    assert "cost_estimate" in out
