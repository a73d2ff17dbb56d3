"""What LLVM's default makes of each module: measured by compiling, kept between runs where that is wanted."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pymlgo.atomic_file import write_text
from pymlgo.corpus.description import Module
from pymlgo.rollout.executor import Executor
from pymlgo.rollout.job import Job, Outcome, RolloutResult, Sizes
from pymlgo.rollout.plain import PlainBackend
from pymlgo.toolchain.identity import binary_identity, cache_folder
from pymlgo.toolchain.llvm import LLVM

FORMAT = "baseline-1"


@dataclass(frozen=True, slots=True)
class BaselineCache:
    """Default sizes by hash(bitcode, flags, compiler): one small file each, so parallel runs may share a folder."""

    folder: Path

    @classmethod
    def default(cls) -> BaselineCache:
        """The cache of this user."""
        return cls(cache_folder("baselines"))

    def get(self, key: str) -> Sizes | None:
        """The sizes kept under `key`; None if there are none, or the file is damaged."""
        try:
            kept = json.loads(self._file(key).read_text(encoding="utf-8"))
            return Sizes(text_bytes=int(kept["text_bytes"]), berkeley_bytes=int(kept["berkeley_bytes"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, sizes: Sizes) -> None:
        """Keep `sizes`; a folder that cannot be written to makes later runs slower, not wrong."""
        content = {"format": FORMAT, "text_bytes": sizes.text_bytes, "berkeley_bytes": sizes.berkeley_bytes}
        with contextlib.suppress(OSError):
            write_text(self._file(key), json.dumps(content))

    def _file(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"


def baseline_key(module: Module, compiler_identity: str) -> str:
    """What the default object of a module depends on, as 64 hex digits."""
    digest = hashlib.sha256(f"{FORMAT}\0{compiler_identity}\0".encode())
    # Not the command as run: it has the paths of bitcode and object, and a corpus may be moved.
    digest.update(b"".join(word + b"\0" for word in module.command))
    for file in filter(None, (module.bitcode, module.thinlto_index)):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def measure_baselines(
    modules: Sequence[Module], llvm: LLVM, executor: Executor, *, cache: BaselineCache | None = None
) -> Iterator[tuple[int, Outcome]]:
    """Each module's number and its default compile, as they finish; what `cache` knows comes first and costs nothing.

    Args:
        modules: what to compile.
        llvm: whose default.
        executor: where.
        cache: read first and filled; None compiles every module.
    """
    identity = binary_identity(llvm.clang) if cache else ""
    keys = [baseline_key(module, identity) if cache else "" for module in modules]
    missing: list[int] = []
    for number, module in enumerate(modules):
        kept = cache.get(keys[number]) if cache else None
        if kept is None:
            missing.append(number)
        else:
            yield number, _from_cache(module, kept)
    backend = PlainBackend(llvm=llvm)
    for place, outcome in executor.run(backend, [Job(module=modules[number]) for number in missing]):
        if cache and isinstance(outcome, RolloutResult):
            cache.put(keys[missing[place]], outcome.sizes)
        yield missing[place], outcome


def _from_cache(module: Module, sizes: Sizes) -> RolloutResult:
    return RolloutResult(
        module=module.name, backend="cache", sizes=sizes, function_bytes={}, decisions=0, changed=0, cpu_s=0.0
    )
