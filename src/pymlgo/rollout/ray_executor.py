"""Many jobs on many machines: the executor over Ray."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self, cast

import pymlgo
from pymlgo.errors import MLGOError
from pymlgo.rollout.backend import JOB_LIMIT_S, Backend
from pymlgo.rollout.job import Job, Outcome, RolloutFailure, RolloutResult
from pymlgo.rollout.ray_cluster import connected
from pymlgo.rollout.ray_pool import START_S, Attempt, Depot, Lost, Traffic, Worker, answered

MOST_TRIES = 3
"""How many workers a job may cost before it is the job that is given up."""

CALL_S = 0.25
"""How long a worker should be busy with one call: a call costs both ends together 2 ms of CPU time."""

DRIVER_S = 0.002
"""What a call may take of the one process that hands out all jobs; with many workers, calls have to be longer."""

MOST_JOBS = 64
"""In one call, however short the jobs are: what a lost worker costs is bounded."""

MOST_FAILED_STARTS = 3
"""In a row, before it is the cluster that is given up."""


class RayExecutor:
    """A pool of actors on a Ray cluster, each with a core and a compiler of its machine.

    Use it as a context manager; the workers start at the first job and end with the block. Machines of the cluster
    need the package, Ray and the same compiler; bitcode and policies are sent to them. A worker that is lost, alone or
    with its machine, is replaced when the cluster has a free core, and what it worked on runs again elsewhere.

    Attributes:
        workers: how many jobs run at a time; 0 before the block begins, where the cluster's cores decide.
        traffic: what was done so far.
    """

    def __init__(
        self, address: str | None = None, workers: int | None = None, *, job_limit_s: float = JOB_LIMIT_S
    ) -> None:
        """Use the cluster at `address` (see `ray_cluster.connected`) with `workers` cores, by default all of them."""
        self.workers = workers or 0
        self.traffic = Traffic()
        self._address = address
        self._job_limit_s = job_limit_s
        self._connection = ExitStack()
        self._pool: list[Worker] = []
        self._failed_starts = 0
        self._job_s = CALL_S  # how long jobs took of late

    def __enter__(self) -> Self:
        self._ray = self._connection.enter_context(connected(self._address, self.workers or None))
        self.workers = self.workers or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self._depot = Depot(self._ray, self.traffic)
        self._pool = [Worker(self._ray, self._depot, self.traffic) for _ in range(self.workers)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for worker in self._pool:
            worker.stop()
        self._pool.clear()
        self._connection.close()

    def run(self, backend: Backend, jobs: Iterable[Job]) -> Iterator[tuple[int, Outcome]]:
        """Each job's number and outcome, as they finish (see `Executor.run`); a call takes several short jobs.

        Raises:
            MLGOError: what `Backend.run` raises; the workers cannot be started.
            ToolchainError: a machine of the cluster lacks the compiler, or has another version of the package.
        """
        if isinstance(jobs, Sequence) and not jobs:
            return
        queue = _Queue(jobs)
        self._job_s = CALL_S  # other jobs than the last run's, which may have been short
        carried = self._depot.number_of_backend(backend)
        try:
            while not queue.is_empty or any(worker.batch for worker in self._pool):
                self._hand_out(queue, carried)
                for worker in self._answered():
                    yield from self._taken(worker, queue, backend.name)
        finally:
            for worker in self._pool:
                if worker.batch:
                    worker.stop()

    def _hand_out(self, queue: _Queue, backend: int) -> None:
        call_s = max(CALL_S, DRIVER_S * self.workers)
        most = max(1, min(MOST_JOBS, int(call_s / max(self._job_s, 1e-6))))
        for worker in self._pool:
            if queue.is_empty:
                return
            if not worker.is_running:
                worker.start()
            elif worker.waits_for is None and (batch := queue.take(most)):
                worker.send(backend, batch, self._job_limit_s)

    def _answered(self) -> list[Worker]:
        """The workers that have answered, or were lost, or are late; waits for one."""
        waiting = {worker.waits_for: worker for worker in self._pool if worker.waits_for is not None}
        busy = [worker for worker in self._pool if worker.batch]
        if not waiting:
            return []
        until = min(each.ends_at for each in busy) if busy else max(each.ends_at for each in waiting.values())
        if ready := answered(self._ray, list(waiting), until):
            return [waiting[each] for each in ready]
        if not busy:
            raise MLGOError(
                f"no worker started within {START_S:g} s: the cluster has no free core",
                hint="`ray status` says what is in use; --jobs asks for fewer workers",
            )
        return [min(busy, key=lambda each: each.ends_at)]

    def _taken(self, worker: Worker, queue: _Queue, backend: str) -> Iterator[tuple[int, Outcome]]:
        was_starting, batch = not worker.batch, worker.batch
        try:
            replies = worker.receive()
        except Lost as lost:
            if was_starting:
                self._note_failed_start(lost)
            yield from self._lost(batch, lost, queue, backend)
            return
        if was_starting:
            self._failed_starts = 0
            return
        self._note_pace(replies, worker.call_s)
        for attempt, reply in zip(batch, replies, strict=False):
            if isinstance(reply, MLGOError):
                worker.stop()  # nobody knows which parcels it holds
                raise reply
            self.traffic.jobs += 1
            yield attempt.number, cast(Outcome, reply)

    def _note_pace(self, replies: Sequence[object], call_s: float) -> None:
        # CPU time where it is known: on a busy machine calls must not become many because they take long.
        cpu_s = sum(each.cpu_s for each in replies if isinstance(each, RolloutResult))
        self._job_s += 0.2 * ((cpu_s or call_s) / len(replies) - self._job_s)

    def _lost(self, batch: Sequence[Attempt], lost: Lost, queue: _Queue, backend: str) -> Iterator[tuple[int, Outcome]]:
        for attempt in batch:
            attempt.losses += 1
            if len(batch) > 1 or (attempt.losses < MOST_TRIES and not lost.was_late):
                self.traffic.retries += 1
                queue.put_back(attempt)
                continue
            name = attempt.job.module.name
            yield (
                attempt.number,
                RolloutFailure(module=name, backend=backend, reason="worker died", detail=str(lost), cpu_s=0.0),
            )

    def _note_failed_start(self, lost: Lost) -> None:
        self._failed_starts += 1
        if self._failed_starts >= MOST_FAILED_STARTS:
            raise MLGOError(
                f"workers do not start: {lost}",
                hint=f"every machine of the cluster needs pymlgo {pymlgo.__version__} in the Python that runs Ray",
            ) from lost


class _Queue:
    """What is left to hand out; jobs are taken from their iterable when somebody is there to run them."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._left = enumerate(jobs)
        self._again: deque[Attempt] = deque()
        self._is_drained = False

    @property
    def is_empty(self) -> bool:
        """Whether it is known that nothing is left."""
        return self._is_drained and not self._again

    def take(self, most: int) -> list[Attempt]:
        """The next jobs; one that has cost a worker comes alone, and takes no other with it if it does so again."""
        if self._again:
            return [self._again.popleft()]
        taken = [Attempt(number, job) for number, job in itertools.islice(self._left, most)]
        self._is_drained = len(taken) < most
        return taken

    def put_back(self, attempt: Attempt) -> None:
        """Hand this one out again."""
        self._again.append(attempt)
