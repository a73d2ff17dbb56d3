"""Many jobs: the protocol of executors, and the one that uses this machine's cores."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import IO, Protocol, Self, cast

from pymlgo.errors import MLGOError
from pymlgo.policy.directory import Policy
from pymlgo.rollout.backend import JOB_LIMIT_S, Backend
from pymlgo.rollout.frames import read_frame, write_frame
from pymlgo.rollout.job import Job, Outcome, RolloutFailure
from pymlgo.toolchain.process import child

GRACE_S = 60.0
"""How much longer than a backend's own limit a worker may take before it is given up."""


class Executor(Protocol):
    """Runs jobs, several at a time."""

    def run(self, backend: Backend, jobs: Iterable[Job]) -> Iterator[tuple[int, Outcome]]:
        """Each job's number and outcome, as they finish; a job is taken from `jobs` only when a worker is free.

        Leaving the iterator early stops what is still running.

        Raises:
            MLGOError: what `Backend.run` raises.
        """


def in_order(executor: Executor, backend: Backend, jobs: Sequence[Job]) -> list[Outcome]:
    """The outcomes of all `jobs`, in their order."""
    outcomes = dict(executor.run(backend, jobs))
    return [outcomes[number] for number in range(len(jobs))]


class LocalExecutor:
    """A pool of worker processes on this machine, each with its compiler on a core of its own.

    Use it as a context manager; the workers start at the first job and end with the block. A worker that dies costs the
    job that it had, and is replaced.
    """

    def __init__(self, workers: int | None = None, *, job_limit_s: float = JOB_LIMIT_S) -> None:
        cores = sorted(os.sched_getaffinity(0))
        self._workers = [_Worker(cores[number % len(cores)]) for number in range(workers or len(cores))]
        self._job_limit_s = job_limit_s

    @property
    def workers(self) -> int:
        """How many jobs run at a time."""
        return len(self._workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.stop()

    def run(self, backend: Backend, jobs: Iterable[Job]) -> Iterator[tuple[int, Outcome]]:
        """Each job's number and outcome, as they finish (see `Executor.run`)."""
        left = enumerate(jobs)
        busy: dict[_Worker, tuple[int, Job]] = {}
        ends_at: dict[_Worker, float] = {}
        try:
            while True:
                for worker in self._workers:
                    if worker not in busy and (following := next(left, None)) is not None:
                        busy[worker] = following
                        ends_at[worker] = time.monotonic() + self._job_limit_s + GRACE_S
                        worker.send(backend, following[1])
                if not busy:
                    return
                for worker in _ready(busy, min(ends_at[each] for each in busy)):
                    number, job = busy.pop(worker)
                    yield number, worker.outcome(job, backend)
        finally:
            for worker in busy:
                worker.stop()


def _ready(busy: Iterable[_Worker], until: float) -> list[_Worker]:
    """The workers with something to say (their end included); the ones that passed their time are killed."""
    with selectors.DefaultSelector() as selector:
        for worker in busy:
            if worker.replies is not None:
                selector.register(worker.replies, selectors.EVENT_READ, worker)
        ready = [cast(_Worker, key.data) for key, _ in selector.select(max(0.0, until - time.monotonic()))]
    if not ready:
        late = next(iter(busy))  # jobs are handed out in turn, so the first is the oldest
        late.stop()
        return [late]
    return ready


class _Worker:
    """The parent's side of one worker process, which is started when it is first needed."""

    def __init__(self, core: int) -> None:
        self._core = core
        self._stack = contextlib.ExitStack()
        self._pipes: tuple[IO[bytes], IO[bytes]] | None = None
        self._backend: Backend | None = None
        self._policy: Policy | None = None

    @property
    def replies(self) -> IO[bytes] | None:
        """Where replies come from; None while no process runs."""
        return self._pipes[1] if self._pipes else None

    def send(self, backend: Backend, job: Job) -> None:
        """Hand over a job; a worker that is dead is noticed by `outcome`."""
        requests, _ = self._pipes or self._start()
        with contextlib.suppress(OSError):
            if backend is not self._backend:
                write_frame(requests, ("backend", backend))
                self._backend = backend
            if job.policy is not self._policy:
                write_frame(requests, ("policy", job.policy))
                self._policy = job.policy
            write_frame(requests, ("job", dataclasses.replace(job, policy=None)))

    def outcome(self, job: Job, backend: Backend) -> Outcome:
        """The reply to `job`, which is there or will be once the worker has written it."""
        reply: object = None
        if self._pipes:
            with contextlib.suppress(EOFError, OSError):
                reply = read_frame(self._pipes[1])
        if isinstance(reply, MLGOError):
            raise reply
        if reply is not None:
            return cast(Outcome, reply)
        self.stop()
        detail = "its worker process ended, or passed its time"
        return RolloutFailure(
            module=job.module.name, backend=backend.name, reason="worker died", detail=detail, cpu_s=0.0
        )

    def stop(self) -> None:
        """End the process and everything it started."""
        self._pipes = self._backend = self._policy = None
        self._stack.close()

    def _start(self) -> tuple[IO[bytes], IO[bytes]]:
        command = (sys.executable, "-m", "pymlgo.rollout.worker", str(self._core))
        process = self._stack.enter_context(child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        self._pipes = cast(IO[bytes], process.stdin), cast(IO[bytes], process.stdout)
        return self._pipes
