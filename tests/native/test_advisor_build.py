"""The plugin under sanitizers, and the build where LLVM's headers are missing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT, require_tool

from advised_compiles import (  # isort: skip
    calls_source,
    compile_advised,
    compile_plain,
    echo_policy,
    pressure_source,
    register_policy,
)

from pymlgo.emit import compile_policy
from pymlgo.toolchain.llvm import find_llvm

pytestmark = pytest.mark.llvm


@pytest.mark.full
def test_address_and_undefined_behaviour_sanitizers_find_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    llvm = find_llvm(clang=require_tool("clang-22"))
    build = tmp_path / "build"
    configure = ["cmake", "-S", ROOT, "-B", build, "-DPYMLGO_SANITIZE=ON", "-DCMAKE_CXX_COMPILER=g++"]
    subprocess.run(configure, check=True, capture_output=True)
    target = "pymlgo-advisor-llvm22"
    subprocess.run(["cmake", "--build", build, "--target", target, "-j2"], check=True, capture_output=True)
    plugin = build / f"native/advisor/{target}.so"
    runtime = subprocess.run(["g++", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True).stdout
    policies = (
        compile_policy(echo_policy(), tmp_path / "echo.so").path,
        compile_policy(register_policy(), tmp_path / "evict.so").path,
    )
    source, log = tmp_path / "x.c", tmp_path / "log"
    source.write_text(calls_source(3, 20) + "\n" + pressure_source())
    log.mkdir()
    plain = compile_plain(llvm, source, "-Oz")
    # clang itself is not instrumented: the runtime comes first by preloading, and what clang leaks is its own affair.
    monkeypatch.setenv("LD_PRELOAD", runtime.strip())
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=0:exitcode=99")
    monkeypatch.setenv("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1")
    done = compile_advised(llvm, source, "-Oz", policies=policies[:1], log=log, plugin=plugin)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.data == plain
    both = compile_advised(
        llvm, source, "-O2", policies=policies, log=log, problems=("inlining", "eviction"), plugin=plugin
    )
    assert (both.returncode, both.stderr) == (0, "")
    assert both.report.problems["eviction"].by_policy > 20


def test_without_llvms_headers_cmake_says_so_and_goes_on(tmp_path: Path) -> None:
    require_tool("cmake")
    # A machine without LLVM: no llvm-config in PATH or in the usual places.
    listfile = tmp_path / "CMakeLists.txt"
    listfile.write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(x LANGUAGES CXX)\n"
        "function(pymlgo_find_llvm major)\nendfunction()\n"
        f'add_subdirectory("{ROOT}/native/advisor" advisor)\n'
    )
    environment = {**os.environ, "PYMLGO_LLVM_DIR": ""}
    command = ["cmake", "-S", tmp_path, "-B", tmp_path / "build"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "no advisor plugin for LLVM 22; its clang is served over the interactive pipes" in done.stdout
