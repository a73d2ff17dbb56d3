"""The same work for many items: in parallel, results in order, only a window of items in memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from pymlgo.errors import CorpusError, MLGOError

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

Item = TypeVar("Item")
Result = TypeVar("Result")

CHUNK = 64
"""Items in one message to a worker."""

ITEMS_PER_PROCESS = 1500
"""A further process is worth its start (some 0.1 CPU seconds) only for about as many objects."""


def map_in_order(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    workers: int | None,
    in_threads: bool = False,
) -> Iterator[Result]:
    """`work(item)` for each item, in order.

    Args:
        work: picklable, unless `in_threads`.
        items: the work.
        workers: at most as many at once; None for the host's hardware threads. Few items take fewer processes.
        in_threads: the work waits for child processes, so threads do.

    Raises:
        CorpusError: a worker process died.
        MLGOError: what `work` raises.
    """
    most = max(1, workers or os.cpu_count() or 1)
    if in_threads:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(most) as threads:
            yield from _windowed(threads, lambda chunk: [work(each) for each in chunk], items, most, chunk=1)
        return
    processes = min(most, len(items) // ITEMS_PER_PROCESS)
    if processes < 2:
        yield from map(work, items)
        return
    yield from _in_processes(work, items, processes)


def _in_processes(work: Callable[[Item], Result], items: Sequence[Item], processes: int) -> Iterator[Result]:
    import pickle
    import subprocess
    import sys
    from concurrent.futures import ThreadPoolExecutor
    from queue import SimpleQueue

    from pymlgo.toolchain.process import Child, child

    command = (sys.executable, "-m", "pymlgo.corpus.worker")
    idle: SimpleQueue[Child] = SimpleQueue()

    def remote(chunk: Sequence[Item]) -> list[Result]:
        worker = idle.get()
        if worker.stdin is None or worker.stdout is None:
            raise CorpusError("a worker process has no pipes")
        try:
            pickle.dump((work, chunk), worker.stdin, pickle.HIGHEST_PROTOCOL)
            worker.stdin.flush()
            answer = pickle.load(worker.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise CorpusError("a worker process died", hint="run the same command again: what is done stays") from error
        finally:
            idle.put(worker)
        if isinstance(answer, MLGOError):
            raise answer
        return list(answer)

    with ExitStack() as stack:
        for _ in range(processes):
            idle.put(stack.enter_context(child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)))
        threads = stack.enter_context(ThreadPoolExecutor(processes))
        yield from _windowed(threads, remote, items, processes, chunk=CHUNK)


def _windowed(
    executor: Executor,
    work: Callable[[Sequence[Item]], list[Result]],
    items: Sequence[Item],
    workers: int,
    chunk: int,
) -> Iterator[Result]:
    pending: deque[Future[list[Result]]] = deque()
    try:
        for start in range(0, len(items), chunk):
            pending.append(executor.submit(work, items[start : start + chunk]))
            if len(pending) >= 4 * workers:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
