"""The example trains."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT
from tiny_corpus import make_corpus

pytest.importorskip("stable_baselines3")
pytest.importorskip("gymnasium", reason="the extra 'gym' is not installed")


@pytest.mark.full
@pytest.mark.llvm
def test_ppo_of_stable_baselines3_learns(clang22: Path, tmp_path: Path) -> None:
    corpus = make_corpus(clang22, tmp_path / "corpus", projects=2, modules=2)
    example = str(ROOT / "examples/stable_baselines3_ppo.py")
    command = [sys.executable, example, str(corpus.root), "--steps", "4096", "-o", str(tmp_path / "model.zip")]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
    before, after = map(float, re.findall(r"([+-][\d.]+) %", printed))
    assert after < before - 10
    assert (tmp_path / "model.zip").exists()
