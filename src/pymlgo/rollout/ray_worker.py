"""The far end of `RayExecutor`: an actor that holds modules and policies and runs the jobs that name them."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
from dataclasses import dataclass
from typing import cast

import pymlgo
from pymlgo.errors import MLGOError
from pymlgo.rollout.answer import answer
from pymlgo.rollout.backend import Backend
from pymlgo.rollout.parcels import HeldModule, WiredJob, unpacked
from pymlgo.rollout.plugin import PluginBackend


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One call of a worker.

    Attributes:
        backend: the number of its parcel.
        jobs: what to run, in this order.
        new: numbers of the parcels that come with the call.
        forgotten: numbers of parcels that no later call names.
    """

    backend: int
    jobs: tuple[WiredJob, ...]
    new: tuple[int, ...]
    forgotten: tuple[int, ...]


class RayWorker:
    """An actor's state. It knows nothing of Ray, which resolves references before it calls."""

    def __init__(self) -> None:
        self._held: dict[int, object] = {}
        self._claim = _claimed_core()

    def version(self) -> tuple[str, str]:
        """This machine's name and its version of the package."""
        return socket.gethostname(), pymlgo.__version__

    def run(self, order: bytes, *contents: bytes) -> bytes:
        """The replies to the jobs of a pickled `Order`, pickled: outcomes, and at the end perhaps an `MLGOError`."""
        asked = cast(Order, pickle.loads(order))
        replies: list[object] = []
        try:
            self._hold(asked, contents)
            for job in asked.jobs:
                replies.append(answer(cast(Backend, self._held[asked.backend]), job.whole(self._held)))
                if isinstance(replies[-1], MLGOError):
                    break
        except MLGOError as error:
            replies.append(error)
        # Bytes, not objects: arrays that Ray hands out itself are read-only and keep room in its object store.
        return pickle.dumps(replies, pickle.HIGHEST_PROTOCOL)

    def _hold(self, asked: Order, contents: tuple[bytes, ...]) -> None:
        for number in asked.forgotten:
            part = self._held.pop(number)
            if isinstance(part, HeldModule | PluginBackend):
                part.close()
        for number, content in zip(asked.new, contents, strict=True):
            self._held[number] = unpacked(content)


def _claimed_core() -> socket.socket | None:
    """Run on a core that no other worker on this machine has, for as long as the socket is open; None if all are taken.

    Ray says how many cores a worker may use, not which. A compiler and its host on one core need no wake-up across
    cores (see `channel/pinning.py`).
    """
    for core in sorted(os.sched_getaffinity(0)):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0pymlgo-core-{core}")  # an abstract name: the kernel frees it with the process
        except OSError:
            claim.close()
            continue
        with contextlib.suppress(OSError):  # a sandbox may forbid it; slower, not wrong
            os.sched_setaffinity(0, {core})
        return claim
    return None
