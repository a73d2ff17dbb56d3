"""Sources and policies for tests of deployments."""

from __future__ import annotations

from pathlib import Path

from pymlgo.policy.directory import save_policy
from pymlgo.policy.shapes import threshold_policy
from pymlgo.tensor_spec import TensorSpec

SOURCE = """
static int square(int x) { return x * x + 3; }
static int mix(int a, int b) { for (int i = 0; i < b; i++) a += square(a ^ i); return a; }
int first(int a) { return mix(a, 3) + mix(a, a) + square(a); }
int second(int a) { return mix(a, 7) ^ first(a) ^ square(a + 1); }
int main(int n, char **v) { (void)v; return second(n) + first(n); }
"""


def threshold_directory(folder: Path, threshold: int = 40) -> Path:
    """A policy directory; this threshold inlines more than LLVM does at -Oz."""
    save_policy(threshold_policy(threshold=threshold), folder)
    return folder


def alien_directory(folder: Path) -> Path:
    """A policy that needs a feature that no compiler sends."""
    save_policy(threshold_policy(TensorSpec("phase_of_moon", "int64_t", (1,))), folder)
    return folder
