"""Sources and policies for tests of deployments."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conftest import require_tool
from pymlgo.errors import ToolchainError
from pymlgo.policy.directory import save_policy
from pymlgo.policy.shapes import threshold_policy
from pymlgo.tensor_spec import TensorSpec
from pymlgo.toolchain.advisor import advisor_plugin
from pymlgo.toolchain.llvm import LLVM, find_llvm

SOURCE = """
static int square(int x) { return x * x + 3; }
static int mix(int a, int b) { for (int i = 0; i < b; i++) a += square(a ^ i); return a; }
int first(int a) { return mix(a, 3) + mix(a, a) + square(a); }
int second(int a) { return mix(a, 7) ^ first(a) ^ square(a + 1); }
int main(int n, char **v) { (void)v; return second(n) + first(n); }
"""


def llvm_with_plugin(name: str) -> LLVM:
    """The LLVM of a clang; without its plugin the test skips, and fails in CI."""
    llvm = find_llvm(clang=require_tool(name))
    try:
        advisor_plugin(llvm)
    except ToolchainError as error:
        if os.environ.get("CI"):
            pytest.fail(f"{error}; {error.hint}")
        pytest.skip(str(error))
    return llvm


def threshold_directory(folder: Path, threshold: int = 40) -> Path:
    """A policy directory; this threshold inlines more than LLVM does at -Oz."""
    save_policy(threshold_policy(threshold=threshold), folder)
    return folder


def alien_directory(folder: Path) -> Path:
    """A policy that needs a feature that no compiler sends."""
    save_policy(threshold_policy(TensorSpec("phase_of_moon", "int64_t", (1,))), folder)
    return folder
