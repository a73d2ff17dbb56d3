"""`mlgo doctor`: the table, its JSON, and the explanations."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from pymlgo.toolchain.probes import DESCRIPTIONS


@pytest.mark.llvm
@pytest.mark.spec("toolchain.capabilities")
def test_the_table_has_a_line_for_each_capability_and_a_hint_for_each_gap(run_mlgo, clang14: Path) -> None:
    code, out, err = run_mlgo("doctor", "--clang", "clang-14")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("LLVM 14.0.")
    for words in DESCRIPTIONS.values():
        (at,) = [number for number, line in enumerate(lines) if line.startswith(f"  {words} ")]
        if lines[at].split(words)[1].split()[0] == "no":
            assert lines[at + 1].strip().startswith("hint: ")


@pytest.mark.llvm
def test_the_json_has_every_llvm_that_is_found(run_mlgo, clang22: Path, clang19: Path, clang14: Path) -> None:
    code, out, _ = run_mlgo("doctor", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["schema"] == "pymlgo/doctor-1"
    by_version = {each["version"].partition(".")[0]: each for each in report["llvms"]}
    assert {"22", "19", "14"} <= set(by_version)
    channel = {major: each["capabilities"]["inliner_channel"]["available"] for major, each in by_version.items()}
    assert (channel["22"], channel["19"], channel["14"]) == (True, True, False)
    assert all(set(each["capabilities"]) == set(DESCRIPTIONS) for each in report["llvms"])


def test_without_any_clang_it_exits_with_3(run_mlgo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PYMLGO_LLVM_DIR", raising=False)
    code, out, err = run_mlgo("doctor")
    assert (code, out) == (3, "")
    assert err.startswith("error: no clang in PYMLGO_LLVM_DIR or PATH")
    assert "hint: install clang-22" in err


@pytest.mark.spec("toolchain.messages")
def test_a_message_is_explained_from_a_file_or_stdin(run_mlgo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"\xff\nerror: Could not setup Inlining Advisor for the requested mode and/or options\n"
    (tmp_path / "stderr").write_bytes(text)
    code, out, _ = run_mlgo("doctor", "--explain", tmp_path / "stderr")
    assert (code, out.startswith("a stock clang has no built-in inliner model")) == (0, True)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert run_mlgo("doctor", "--explain", "-")[1] == out


def test_an_unknown_message_or_file_is_told(run_mlgo, tmp_path: Path) -> None:
    (tmp_path / "stderr").write_text("error: something else\n")
    assert run_mlgo("doctor", "--explain", tmp_path / "stderr")[0] == 1
    code, _, err = run_mlgo("doctor", "--explain", tmp_path / "missing")
    assert code == 3
    assert "cannot be read" in err
