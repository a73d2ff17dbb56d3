"""The package imports without any optional library, and each of those has few doors."""

from __future__ import annotations

import re
import subprocess
import sys

from conftest import ROOT

OPTIONAL = (
    "torch",
    "ray",
    "gymnasium",
    "ai_edge_litert",
    "onnx",
    "onnxruntime",
    "lightgbm",
    "cma",
    "pyarrow",
    "matplotlib",
    "lief",
    "tensorboardX",
    "shtab",
)


def test_everything_imports_with_the_optional_libraries_blocked() -> None:
    program = f"""
import importlib, pkgutil, sys
for name in {OPTIONAL!r}:
    sys.modules[name] = None
import pymlgo
for module in pkgutil.walk_packages(pymlgo.__path__, "pymlgo."):
    importlib.import_module(module.name)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_each_optional_library_has_at_most_two_doors() -> None:
    for library in OPTIONAL:
        doors = {
            file.relative_to(ROOT)
            for file in (ROOT / "src").rglob("*.py")
            if re.search(rf'need\("{library}[".]|^\s*(import|from) {library}\b', file.read_text(), re.MULTILINE)
        }
        assert len(doors) <= 2, f"{library} is imported in {sorted(map(str, doors))}"


def test_the_command_line_starts_without_numpy() -> None:
    program = "import sys, pymlgo.cli.main; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
