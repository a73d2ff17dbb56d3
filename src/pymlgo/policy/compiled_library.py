"""What the makers and the users of compiled policies share: shared objects with the C interface of `policy_abi.h`."""

from __future__ import annotations

import ctypes
import hashlib
import tempfile
from pathlib import Path

from pymlgo.errors import PolicyError
from pymlgo.tensor_spec import TensorSpec

ABI_VERSION = 1

MODEL_SELECTOR = TensorSpec("model_selector", "uint64_t", (2,))
"""The input that picks one of several policies in an object. Source: ReleaseModeModelRunner.h (LLVM 22)."""


def selector_words(name: str) -> tuple[int, int]:
    """The MD5 of a policy's name as LLVM stores it: digest bytes 8 to 15, then 0 to 7, both little-endian."""
    digest = hashlib.md5(name.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[8:], "little"), int.from_bytes(digest[:8], "little")


def load_library(file: Path) -> ctypes.CDLL:
    """The shared object as it is in the file now.

    Raises:
        PolicyError: it cannot be loaded, is no compiled policy, or one of another version of the interface.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="mlgo-") as folder:
            # The loader knows libraries by name first; under a new name it looks at the file, which may have changed.
            alias = Path(folder, file.name)
            alias.symlink_to(file.resolve())
            library = ctypes.CDLL(str(alias))
        library.mlgo_abi_version.restype = ctypes.c_uint32
        version = library.mlgo_abi_version()
    except (OSError, AttributeError) as error:
        raise PolicyError(
            f"{file}: no compiled policy: {error}", hint="`mlgo policy compile DIR -o FILE` makes one"
        ) from error
    if version != ABI_VERSION:
        raise PolicyError(
            f"{file}: version {version} of the interface, expected {ABI_VERSION}", hint="compile it again"
        )
    return library
