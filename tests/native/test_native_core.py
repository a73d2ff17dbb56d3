"""The C++ part as built and as installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, require_tool

native = pytest.importorskip("pymlgo._native")


def test_the_stub_is_what_stubgen_writes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "pymlgo._native", "-o", tmp_path / "_native.pyi"]
    subprocess.run(command, check=True, capture_output=True)
    written = (tmp_path / "_native.pyi").read_text()
    assert written == (ROOT / "src/pymlgo/_native.pyi").read_text(), f"run: {' '.join(map(str, command[:-1]))} src/…"


def test_without_llvm_the_build_says_so_and_succeeds(tmp_path: Path) -> None:
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("no cmake")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(alone LANGUAGES CXX)\n"
        f"add_subdirectory({ROOT / 'native'} native)\n"
    )
    folder = tmp_path / "build"
    command = [cmake, "-S", tmp_path, "-B", folder, "-DPYMLGO_CORE=OFF"]
    configured = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "built without the native core; embeddings go through llvm-ir2vec" in configured.stdout
    assert not list(folder.rglob("binding"))


def test_the_core_is_linked_to_the_llvm_it_names() -> None:
    config = require_tool("llvm-config-22")
    version = subprocess.run([config, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    assert native.llvm_version() == version


def test_the_reader_answers_without_python(tmp_path: Path) -> None:
    program = Path(native.__file__).with_name("mlgo-ir-reader")
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    assert "python" not in libraries

    def packed(*parts: bytes) -> bytes:
        return b"".join(
            [len(parts).to_bytes(8, sys.byteorder), *(len(p).to_bytes(8, sys.byteorder) + p for p in parts)]
        )

    text = b"define void @f() {\n ret void\n}\n"
    requests = [packed(b"ir", b"m", text), packed(b"nonsense", b"m", text), packed(b"ir", b"m", b"bad"), packed(b"ir")]
    (tmp_path / "file.ll").write_bytes(text)
    requests.append(packed(b"ir", bytes(tmp_path / "file.ll"), b""))
    finished = subprocess.run([program], input=b"".join(requests), capture_output=True, check=True)
    answers: list[list[bytes]] = []
    left = finished.stdout
    while left:
        count, left = int.from_bytes(left[:8], sys.byteorder), left[8:]
        answers.append([])
        for _ in range(count):
            size, left = int.from_bytes(left[:8], sys.byteorder), left[8:]
            answers[-1].append(left[:size])
            left = left[size:]
    assert [answer[0] for answer in answers] == [b"ok", b"error", b"error", b"error", b"ok"]
    assert answers[1][1] == b"unknown verb 'nonsense'"
    assert b"m:1:1: expected top-level entity" in answers[2][1]
    assert native.Walk.deserialize(answers[4][1]).function_names == [b"f"]


@pytest.mark.full
def test_the_core_passes_its_own_tests_under_sanitizers(tmp_path: Path) -> None:
    require_tool("llvm-config-22")
    build = tmp_path / "build"
    options = ["-DPYMLGO_TESTS=ON", "-DPYMLGO_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_COMPILER=g++"]
    subprocess.run([require_tool("cmake"), "-S", ROOT, "-B", build, *options], check=True, capture_output=True)
    target = ["--target", "mlgo-core-tests", "-j2"]
    subprocess.run(["cmake", "--build", build, *target], check=True, capture_output=True)
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=1"}
    command = ["ctest", "--test-dir", build, "--output-on-failure", "-R", "^core$"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "100% tests passed" in done.stdout


@pytest.mark.full
def test_clang_tidy_finds_nothing() -> None:
    require_tool("clang-tidy-22")
    checked = subprocess.run([ROOT / "scripts/check-native", "--tidy"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_names_are_demangled() -> None:
    assert native.demangle("_ZN3foo3barEv") == "foo::bar()"
    assert native.demangle("main") == "main"
