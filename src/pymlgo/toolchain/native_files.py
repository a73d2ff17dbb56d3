"""What the package's C++ part left in `pymlgo/plugins/` for each LLVM."""

from __future__ import annotations

from pathlib import Path

import pymlgo
from pymlgo.toolchain.llvm import LLVM

FOLDER = "plugins"


def advisor_plugin(llvm: LLVM) -> Path | None:
    """The clang plugin that fits `llvm`, or None: its headers were missing when the package was installed."""
    return _installed(f"pymlgo-advisor-llvm{llvm.major}.so")


def engine_program(llvm: LLVM) -> Path | None:
    """The compile server that is `llvm` inside, or None: clang's headers were missing when the package was installed."""
    return _installed(f"pymlgo-engine-llvm{llvm.major}")


def _installed(name: str) -> Path | None:
    # An editable install has two folders: the sources, and what was built.
    for folder in pymlgo.__path__:
        file = Path(folder, FOLDER, name)
        if file.is_file():
            return file
    return None
