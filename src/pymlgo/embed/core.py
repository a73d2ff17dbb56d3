"""The door to the native core, which is built only where LLVM's headers were found."""

from __future__ import annotations

import functools
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from pymlgo.errors import ToolchainError

if TYPE_CHECKING:
    from pymlgo._native import Walk as Walk

READER_NAME = "mlgo-ir-reader"

_HINT = (
    "install LLVM 22 with its headers (Debian: llvm-22-dev) and reinstall pymlgo; "
    "`--through-tool` needs only llvm-ir2vec"
)


@functools.cache
def core() -> ModuleType:
    """The extension module `pymlgo._native`.

    Raises:
        ToolchainError: it was not built, or the LLVM that it was built for is gone.
    """
    try:
        from pymlgo import _native
    except ImportError as error:
        raise ToolchainError(f"the native core is not there: {error}", hint=_HINT) from error
    return _native


def has_core() -> bool:
    """Whether the native core was built and loads."""
    try:
        core()
    except ToolchainError:
        return False
    return True


def reader_program() -> Path:
    """The program that reads modules in a process of its own; it lies beside the extension.

    Raises:
        ToolchainError: the native core was not built.
    """
    program = Path(str(core().__file__)).with_name(READER_NAME)
    if not program.is_file():
        raise ToolchainError(f"{program} is missing", hint="reinstall pymlgo")
    return program
