"""The workers of `RayExecutor` as the driver sees them, and the parcels that it keeps for them."""

from __future__ import annotations

import itertools
import pickle
import time
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias, cast

import pymlgo
from pymlgo.corpus.description import Module
from pymlgo.errors import MLGOError, ToolchainError
from pymlgo.policy.policy import Policy
from pymlgo.rollout.backend import Backend
from pymlgo.rollout.executor import GRACE_S
from pymlgo.rollout.job import Job, Trajectory
from pymlgo.rollout.parcels import Allowance, WiredJob, packed, without_parts
from pymlgo.rollout.ray_worker import Order, RayWorker

Reference: TypeAlias = Hashable
"""Ray's `ObjectRef`."""

HELD_BYTES = 256 << 20
"""Of parcels in each worker's memory."""

STORED_BYTES = 1 << 30
"""Of parcels in Ray's object store, which moves to disk what does not fit into its memory."""

FETCH_S = 5.0
"""How long an answer that is there may take to come from another machine."""

START_S = 180.0
"""How long the first worker may take to start; a cluster without a free core never starts one."""


@dataclass(slots=True, kw_only=True)
class Traffic:
    """What an executor has done so far.

    Attributes:
        calls: of workers.
        jobs: that came back.
        retries: jobs that were handed out once more since their worker was lost.
        stored_bytes: of parcels that were put into the object store.
        fetched_bytes: of parcels that workers took from it; machines with several workers fetch once for all of them.
        order_bytes: of what went out with the calls.
        reply_bytes: of what came back.
    """

    calls: int = 0
    jobs: int = 0
    retries: int = 0
    stored_bytes: int = 0
    fetched_bytes: int = 0
    order_bytes: int = 0
    reply_bytes: int = 0


@dataclass(slots=True)
class Attempt:
    """A job with its number, and how many workers it has cost."""

    number: int
    job: Job
    losses: int = 0


class Lost(Exception):
    """A worker is gone, or takes too long."""

    def __init__(self, why: str, *, was_late: bool) -> None:
        super().__init__(why)
        self.was_late = was_late


class Worker:
    """The driver's side of one actor.

    Attributes:
        batch: what it works on; empty while it starts and while it waits for work.
        waits_for: Ray's reference of its next answer; None where there is none to come.
        ends_at: by the monotonic clock, when that answer is late.
        call_s: how long its last call took.
    """

    def __init__(self, ray: ModuleType, depot: Depot, traffic: Traffic) -> None:
        self.batch: Sequence[Attempt] = ()
        self.waits_for: Reference | None = None
        self.ends_at = self.call_s = self._sent_at = 0.0
        self._ray = ray
        self._depot = depot
        self._traffic = traffic
        self._actor: Any = None
        self._held = Allowance(HELD_BYTES)

    @property
    def is_running(self) -> bool:
        """Whether there is an actor, or will be once the cluster has a free core."""
        return self._actor is not None

    def start(self) -> None:
        """Ask the cluster for an actor; its first answer says that it is there."""
        self._held = Allowance(HELD_BYTES)
        actor = self._ray.remote(RayWorker).options(
            num_cpus=1, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD"
        )
        self._actor = actor.remote()
        self.waits_for = self._actor.version.remote()
        self.ends_at = time.monotonic() + START_S

    def send(self, backend: int, batch: Sequence[Attempt], job_limit_s: float) -> None:
        """Hand over jobs, with what they need and the worker does not hold yet."""
        jobs = tuple(self._depot.wired(each.job) for each in batch)
        sizes = self._depot.sizes({backend, *(number for job in jobs for number in job.parcels)})
        new, forgotten = self._held.use(sizes)
        order = Order(backend=backend, jobs=jobs, new=tuple(new), forgotten=tuple(forgotten))
        packed_order = pickle.dumps(order, pickle.HIGHEST_PROTOCOL)
        self.waits_for = self._actor.run.remote(packed_order, *self._depot.references(new))
        self._depot.trim(sizes)
        self.batch = batch
        self._sent_at = time.monotonic()
        self.ends_at = self._sent_at + job_limit_s * len(batch) + GRACE_S
        self._traffic.calls += 1
        self._traffic.order_bytes += len(packed_order)
        self._traffic.fetched_bytes += sum(sizes[number] for number in new)

    def receive(self) -> list[object]:
        """The replies to its jobs, or to its start; it waits for work then.

        Raises:
            Lost: it is gone.
            ToolchainError: it has another version of the package.
        """
        try:
            answer = self._answer()
        except Lost:
            self.stop()
            raise
        self.call_s = time.monotonic() - self._sent_at
        was_starting, self.batch, self.waits_for = not self.batch, (), None
        if was_starting:
            _check_version(*cast(tuple[str, str], answer))
            return []
        self._traffic.reply_bytes += len(cast(bytes, answer))
        return cast(list[object], pickle.loads(cast(bytes, answer)))

    def stop(self) -> None:
        """End the actor and its compilers."""
        if self._actor is not None:
            self._ray.kill(self._actor)
        self._actor = self.waits_for = None
        self.batch = ()

    def _answer(self) -> object:
        errors = self._ray.exceptions
        try:
            return self._ray.get(self.waits_for, timeout=FETCH_S)
        except errors.GetTimeoutError as error:
            raise Lost("it took longer than its time limit", was_late=True) from error
        except errors.RayTaskError as error:
            raise MLGOError(f"a worker failed: {_last_line(error)}") from error
        except errors.RayError as error:
            raise Lost(f"its worker was lost: {_last_line(error)}", was_late=False) from error


class Depot:
    """The parcels in Ray's object store."""

    def __init__(self, ray: ModuleType, traffic: Traffic) -> None:
        self._ray = ray
        self._traffic = traffic
        self._numbers: dict[Hashable, int] = {}
        self._parcels: dict[int, _Parcel] = {}
        self._count = itertools.count()
        self._kept = Allowance(STORED_BYTES)

    def wired(self, job: Job) -> WiredJob:
        """The job by the numbers of its parcels, which are in the store then."""
        policy, overrides = job.policy, job.overrides
        return WiredJob(
            rest=without_parts(job),
            module=self._number(_module_key(job.module), job.module),
            policy=None if policy is None else self._number(id(policy), policy),
            recorded=None if overrides is None else self._number(id(overrides.recorded), overrides.recorded),
        )

    def number_of_backend(self, backend: Backend) -> int:
        """The number of the backend's parcel."""
        return self._number(id(backend), backend)

    def sizes(self, numbers: Collection[int]) -> dict[int, int]:
        """Bytes of these parcels."""
        return {number: self._parcels[number].size_bytes for number in numbers}

    def references(self, numbers: Iterable[int]) -> list[Reference]:
        """Ray's references of these parcels."""
        return [self._parcels[number].reference for number in numbers]

    def trim(self, used: Mapping[int, int]) -> None:
        """Note what was used just now, and drop what was not for long."""
        _, gone = self._kept.use(used)
        for number in gone:
            del self._numbers[self._parcels.pop(number).key]

    def _number(self, key: Hashable, part: Backend | Module | Policy | Trajectory) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = next(self._count)
            content = packed(part)
            self._parcels[number] = _Parcel(
                key=key, part=part, size_bytes=len(content), reference=self._ray.put(content)
            )
            self._traffic.stored_bytes += len(content)
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parcel:
    """A part that is in the object store; being kept here, its `id` is nobody else's."""

    key: Hashable
    part: object
    size_bytes: int
    reference: Reference


def answered(ray: ModuleType, references: Sequence[Reference], until: float) -> list[Reference]:
    """The references whose answers are there; waits for the first one, until the monotonic clock says `until`."""
    if not ray.wait(references, num_returns=1, timeout=max(0.0, until - time.monotonic()))[0]:
        return []
    return cast(list[Reference], ray.wait(references, num_returns=len(references), timeout=0)[0])


def _module_key(module: Module) -> Hashable:
    """What changes when the content of the module's files does."""
    try:
        return module, *(each.stat().st_mtime_ns for each in (module.bitcode, module.thinlto_index) if each)
    except OSError:
        return module


def _check_version(machine: str, version: str) -> None:
    if version != pymlgo.__version__:
        raise ToolchainError(
            f"{machine} has pymlgo {version}, this machine has {pymlgo.__version__}",
            hint="install the same version on every machine of the cluster",
        )


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
