"""Fixtures of every test: real LLVMs, and the rule for machines that lack one."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from pymlgo.errors import ToolchainError
from pymlgo.toolchain.advisor import advisor_plugin
from pymlgo.toolchain.llvm import LLVM, find_llvm

ROOT = Path(__file__).resolve().parent.parent

# A shell that starts us in the background makes us ignore Ctrl-C, and the programs that tests start inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def require_tool(name: str) -> Path:
    """The path of a tool; without it the test skips on a developer's machine and fails in CI."""
    found = shutil.which(name)
    if found:
        return Path(found)
    message = f"{name} is not installed; `make set-up-tests` installs it"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


def llvm_with_plugin(name: str) -> LLVM:
    """The LLVM of a clang; without its advisor plugin the test skips, and fails in CI."""
    llvm = find_llvm(clang=require_tool(name))
    try:
        advisor_plugin(llvm)
    except ToolchainError as error:
        if os.environ.get("CI"):
            pytest.fail(f"{error}; {error.hint}")
        pytest.skip(str(error))
    return llvm


@pytest.fixture(scope="session")
def clang22() -> Path:
    return require_tool("clang-22")


@pytest.fixture(scope="session")
def clang19() -> Path:
    return require_tool("clang-19")


@pytest.fixture(scope="session")
def clang14() -> Path:
    return require_tool("clang-14")


@pytest.fixture(scope="session", params=["clang-22", "clang-19"])
def clang(request: pytest.FixtureRequest) -> Path:
    """Each clang that has the interactive channel."""
    return require_tool(str(request.param))


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of large corpora (`train`, `extra`, `dev`) that PYMLGO_CORPORA names; most machines have none."""
    named = os.environ.get("PYMLGO_CORPORA")
    if not named:
        pytest.skip("PYMLGO_CORPORA names no folder of large corpora")
    return Path(named)


@pytest.fixture
def run_mlgo(capfd: pytest.CaptureFixture[str]):
    """Run `mlgo ARGS…` in this process: (exit code, stdout, stderr)."""
    from pymlgo.cli.main import main

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        capfd.readouterr()
        try:
            code = main([str(each) for each in arguments])
        except SystemExit as stop:  # argparse
            code = int(stop.code or 0)
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run
