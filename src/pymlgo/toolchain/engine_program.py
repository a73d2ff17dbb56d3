"""The compile server: where it is."""

from __future__ import annotations

from pathlib import Path

from pymlgo.toolchain.advisor import plugin_folders
from pymlgo.toolchain.llvm import LLVM


def engine_program(llvm: LLVM) -> Path | None:
    """The compile server that holds the code of this LLVM's clang; None where it was not built.

    It is built with the package where clang's headers are (Debian: libclang-22-dev).
    """
    files = (folder / f"pymlgo-engine-llvm{llvm.major}" for folder in plugin_folders())
    return next((file for file in files if file.is_file()), None)
