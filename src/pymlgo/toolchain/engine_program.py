"""The compile server: where it is."""

from __future__ import annotations

from pathlib import Path

import pymlgo
from pymlgo.toolchain.llvm import LLVM


def engine_program(llvm: LLVM) -> Path | None:
    """The compile server that holds the code of this LLVM's clang; None where it was not built.

    It is built with the package where clang's headers are (Debian: libclang-22-dev).
    """
    for folder in pymlgo.__path__:  # an editable install has two: the sources, and what was built
        file = Path(folder, "plugins", f"pymlgo-engine-llvm{llvm.major}")
        if file.is_file():
            return file
    return None
