"""What travels to a worker on another machine: a job's large parts, once each.

A job on the wire names its module, its policy and its recorded decisions by number. The side that sends knows which
of these parcels a worker holds; what a worker holds stays below a limit, and the least recently used goes first.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from pymlgo.corpus.description import Module
from pymlgo.policy.policy import Policy
from pymlgo.rollout.backend import Backend
from pymlgo.rollout.job import Job, Overrides, Trajectory
from pymlgo.rollout.relocation import Relocatable

_NO_MODULE = Module(name="", bitcode=Path(), command=(), size_bytes=0)
_NO_DECISIONS = Trajectory(
    specs=(), features={}, advice=np.zeros(0, np.int64), default=None, overridden=np.zeros(0, np.bool_)
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WiredJob:
    """A job whose large parts are numbers of parcels; `rest` is what is left of it."""

    rest: Job
    module: int
    policy: int | None
    recorded: int | None

    @property
    def parcels(self) -> tuple[int, ...]:
        """The numbers of its parts."""
        return tuple(each for each in (self.module, self.policy, self.recorded) if each is not None)

    def whole(self, held: Mapping[int, object]) -> Job:
        """The job, made of the parcels' contents."""
        overrides = self.rest.overrides
        if overrides is not None and self.recorded is not None:
            overrides = Overrides(advice=overrides.advice, recorded=cast(Trajectory, held[self.recorded]))
        return dataclasses.replace(
            self.rest,
            module=cast(HeldModule, held[self.module]).module,
            policy=None if self.policy is None else cast(Policy, held[self.policy]),
            overrides=overrides,
        )


def without_parts(job: Job) -> Job:
    """The job without module, policy and recorded decisions."""
    overrides = job.overrides and Overrides(advice=job.overrides.advice, recorded=_NO_DECISIONS)
    return dataclasses.replace(job, module=_NO_MODULE, policy=None, overrides=overrides)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleContent:
    """A module with the content of its files; None for one that it does not have, or that cannot be read."""

    module: Module
    bitcode: bytes | None
    thinlto_index: bytes | None

    @classmethod
    def of(cls, module: Module) -> ModuleContent:
        """The module's files as they are now."""
        return cls(module=module, bitcode=_content(module.bitcode), thinlto_index=_content(module.thinlto_index))


def _content(file: Path | None) -> bytes | None:
    try:
        return file.read_bytes() if file else None
    except OSError:
        return None  # the module keeps its path, and the compiler says of it what it says everywhere


class HeldModule:
    """A module whose files are in memory: a worker that is killed leaves none behind.

    Attributes:
        module: with paths that this process and the compilers it starts can open.
    """

    def __init__(self, content: ModuleContent) -> None:
        self._descriptors: list[int] = []
        self.module = dataclasses.replace(
            content.module,
            bitcode=self._file(content.bitcode) or content.module.bitcode,
            thinlto_index=self._file(content.thinlto_index) or content.module.thinlto_index,
        )

    def close(self) -> None:
        """Free the memory."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _file(self, content: bytes | None) -> Path | None:
        if content is None:
            return None
        descriptor = os.memfd_create("module.bc")
        self._descriptors.append(descriptor)
        with open(descriptor, "wb", closefd=False) as stream:
            stream.write(content)
        return Path(f"/proc/{os.getpid()}/fd/{descriptor}")


def packed(part: Backend | Module | Policy | Trajectory) -> bytes:
    """The bytes of a parcel."""
    match part:
        case Module():
            content: object = ModuleContent.of(part)
        case Policy() | Trajectory():
            content = part
        case backend:
            content = Relocatable.of(backend)
    return pickle.dumps(content, pickle.HIGHEST_PROTOCOL)


def unpacked(content: bytes) -> object:
    """What a worker holds of a parcel that a worker of ours was sent.

    Raises:
        ToolchainError: it is a backend whose compiler is not installed here.
    """
    part = pickle.loads(content)
    if isinstance(part, Relocatable):
        return part.here()
    return HeldModule(part) if isinstance(part, ModuleContent) else part


class Allowance:
    """Numbers with sizes, of which together at most `limit_bytes` are kept; the least recently used go."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._sizes: OrderedDict[int, int] = OrderedDict()

    def use(self, sizes: Mapping[int, int]) -> tuple[list[int], list[int]]:
        """Note that all of `sizes` are used now: which of them are new, and which others had to go."""
        new = [number for number in sizes if number not in self._sizes]
        self._sizes.update(sizes)
        for number in sizes:
            self._sizes.move_to_end(number)
        return new, list(self._gone(sizes))

    def _gone(self, kept: Collection[int]) -> list[int]:
        gone = []
        surplus = sum(self._sizes.values()) - self._limit_bytes
        for number in list(self._sizes):
            if surplus <= 0 or number in kept:
                break  # what is used now is at the end
            surplus -= self._sizes[number]
            gone.append(number)
            del self._sizes[number]
        return gone
