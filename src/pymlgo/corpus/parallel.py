"""The same work for many items: in parallel, results in order, only a window of items in memory."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

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
    """
    most = max(1, workers or os.cpu_count() or 1)
    if in_threads:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(most) as threads:
            yield from _windowed(threads, work, items, most, chunk=1)
        return
    processes = min(most, len(items) // ITEMS_PER_PROCESS)
    if processes < 2:
        yield from map(work, items)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # A fresh interpreter: forking a process that has threads (progress, numpy) can deadlock the child.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_ignore_interrupt) as pool:
        yield from _windowed(pool, work, items, processes, chunk=CHUNK)


def _windowed(
    executor: Executor, work: Callable[[Item], Result], items: Sequence[Item], workers: int, chunk: int
) -> Iterator[Result]:
    pending: deque[Future[list[Result]]] = deque()
    try:
        for start in range(0, len(items), chunk):
            pending.append(executor.submit(_each, work, items[start : start + chunk]))
            if len(pending) >= 4 * workers:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


def _each(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    return [work(item) for item in items]


def _ignore_interrupt() -> None:
    # Ctrl-C goes to the whole group; the parent decides what becomes of the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
