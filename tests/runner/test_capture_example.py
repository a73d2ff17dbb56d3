"""The example captures LLVM's default heuristic through a NoInferenceModelRunner."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT
from pymlgo.training_log import read_log

SOURCE = """
static int small(int x) { return x + 1; }
static int large(int *p, int n) {
  int s = 0;
  for (int i = 0; i < n; i++) { s += p[i] * p[i]; if (s & 1) s ^= n; else s -= i; p[i] = s / 3; }
  return s;
}
int f(int *p, int n) { return small(n) + large(p, n); }
int g(int *p, int n) { return large(p, n + 1) + large(p, n - 1) + small(small(n)); }
"""


@pytest.mark.llvm
@pytest.mark.spec("model-runner.no-inference")
@pytest.mark.usefixtures("clang22")
def test_the_example_logs_the_default_heuristic(tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text(SOURCE)
    command = [sys.executable, str(ROOT / "examples/capture_heuristic.py"), "x.c", "log"]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    log = read_log(tmp_path / "log")
    assert log.error is None
    (context,) = log.contexts
    assert finished.stdout == f"{len(context)} decisions\n"
    decided = context.features["inlining_decision"].ravel()
    assert set(decided.tolist()) == {0, 1}
    # At -Oz LLVM's own rule is this one.
    assert (decided == (context.features["cost_estimate"].ravel() <= 0)).all()
    assert log.header.action.name == "inlining_decision"
    assert "inlining_default" not in context.features
