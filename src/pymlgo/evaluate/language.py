"""In which language a module was written."""

from __future__ import annotations

import os
from pathlib import PurePath

from pymlgo.corpus.bitcode import module_info
from pymlgo.corpus.description import Module
from pymlgo.corpus.driver_line import C_FAMILY, LANGUAGES
from pymlgo.errors import CorpusError

UNKNOWN = "unknown"


def language_of(module: Module) -> str:
    """The language as clang's driver calls it (`c`, `c++`), by the suffix of the source; `unknown` if none tells.

    Asked are the bitcode, the command line and the module's name, in this order.
    """
    for name in (_source_in_bitcode(module), _main_file(module), module.name.removesuffix(".o")):
        language = LANGUAGES.get(PurePath(name).suffix)
        if language in C_FAMILY:
            return language
    return UNKNOWN


def _source_in_bitcode(module: Module) -> str:
    try:
        return module_info(module.bitcode.read_bytes()).source_filename or ""
    except (CorpusError, OSError):
        return ""  # the compile will say what is wrong with it


def _main_file(module: Module) -> str:
    words = module.command
    place = words.index(b"-main-file-name") + 1 if b"-main-file-name" in words else len(words)
    return os.fsdecode(words[place]) if place < len(words) else ""
