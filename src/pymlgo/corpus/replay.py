"""The command that compiles a corpus's module into the object it came from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pymlgo.corpus.description import UNSPECIFIED, Module
from pymlgo.errors import CorpusError

INDEX_FLAG = b"-fthinlto-index="
EMBED_FLAG = b"-fembed-bitcode="


def replay_command(module: Module, clang: Path | str, output: Path, *, embed: bool) -> list[bytes | str]:
    """`clang -cc1 … -x ir MODULE.bc -o OUTPUT`: the object that the module's build made.

    It may run in any directory. Objects equal the build's byte for byte, but for the numbers in the names of private
    strings (`.Lstr.1`), which the optimizer gives as it goes.

    Args:
        module: from `read_corpus`.
        clang: of the LLVM that made the bitcode, or a newer one.
        output: the object file to write.
        embed: keep `-fembed-bitcode=`, so that the object carries the sections again and equals the build's. False
            drops it: a quarter of the size, and flags that a caller adds are not recorded in the object.

    Raises:
        CorpusError: the corpus's override was never filled in.
    """
    command = list(module.command)
    if UNSPECIFIED.encode() in command:
        raise CorpusError(
            f"module {module.name!r}: the corpus's global_command_override is still {UNSPECIFIED}",
            hint="`mlgo corpus extract --thinlto-build local` generates the right one",
        )
    if not embed:
        command = [each for each in command if not each.startswith(EMBED_FLAG)]
    if module.thinlto_index is not None:
        command = with_thinlto_index(command, module.thinlto_index)
    if command[:1] != [b"-cc1"]:
        command.append(b"-c")  # an override may be flags of the driver
    return [str(clang), *command, "-x", "ir", str(module.bitcode), "-o", str(output)]


def with_thinlto_index(command: Sequence[bytes], index: Path) -> list[bytes]:
    """`command` with its ThinLTO index replaced by (or, without one, given) the file `index`.

    `-thinlto-assume-merged` tells clang that the module already holds what it imports, so that it looks for no other
    module; without it the object comes out empty.
    """
    kept = [each for each in command if not each.startswith(INDEX_FLAG)]
    return [*kept, INDEX_FLAG + str(index).encode("utf-8", "surrogateescape"), b"-mllvm", b"-thinlto-assume-merged"]
