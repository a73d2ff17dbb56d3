"""The local pool: order, back-pressure, workers that die, errors that stop everything."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import worker_backends
from worker_backends import Fake

from process_table import alive_with, marked
from pymlgo.corpus.description import Module
from pymlgo.errors import PolicyError
from pymlgo.rollout import Job, LocalExecutor, RolloutFailure, RolloutResult, in_order


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    # Workers are processes of their own: they find the fake backend as they would find a user's.
    folder = str(Path(worker_backends.__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH")))))


def jobs(*names: str) -> list[Job]:
    return [Job(module=Module(name=name, bitcode=Path(name), command=(b"-cc1",), size_bytes=1)) for name in names]


def test_outcomes_come_in_the_order_of_the_jobs() -> None:
    with LocalExecutor(2) as executor:
        outcomes = in_order(executor, Fake(), jobs("slow", "a", "b", "c"))
    assert [each.module for each in outcomes] == ["slow", "a", "b", "c"]
    assert all(isinstance(each, RolloutResult) for each in outcomes)


def test_a_worker_that_dies_costs_one_job() -> None:
    with LocalExecutor(2) as executor:
        outcomes = in_order(executor, Fake(), jobs("a", "die", "b", "c", "die", "d"))
        again = in_order(executor, Fake(), jobs("e"))
    reasons = [each.reason if isinstance(each, RolloutFailure) else "" for each in outcomes]
    assert reasons == ["", "worker died", "", "", "worker died", ""]
    assert isinstance(again[0], RolloutResult)


def test_a_worker_that_hangs_costs_one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymlgo.rollout.executor.GRACE_S", 0.0)
    with LocalExecutor(1, job_limit_s=8.0) as executor:
        outcomes = in_order(executor, Fake(), jobs("hang", "a"))
    assert isinstance(outcomes[0], RolloutFailure)
    assert outcomes[0].reason == "worker died"
    assert isinstance(outcomes[1], RolloutResult)


def test_a_mistake_about_one_module_is_counted() -> None:
    with LocalExecutor(1) as executor:
        outcomes = in_order(executor, Fake(), jobs("mistake", "a"))
    assert isinstance(outcomes[0], RolloutFailure)
    assert outcomes[0].reason == "internal error"
    assert "ZeroDivisionError" in outcomes[0].detail
    assert isinstance(outcomes[1], RolloutResult)


def test_what_no_job_can_survive_stops_the_batch() -> None:
    with LocalExecutor(2) as executor:
        with pytest.raises(PolicyError, match="does not fit") as raised:
            in_order(executor, Fake(), jobs("unfit", "a"))
        assert raised.value.hint == "another one"
        assert len(in_order(executor, Fake(), jobs("a", "b"))) == 2


def test_jobs_are_taken_as_workers_get_free() -> None:
    taken = []

    def many() -> Iterator[Job]:
        for number in itertools.count():
            taken.append(number)
            yield jobs(f"m{number}")[0]

    with LocalExecutor(2) as executor:
        outcomes = executor.run(Fake(), many())
        for _ in range(5):
            next(outcomes)
        outcomes.close()
    assert len(taken) <= 8


def test_workers_are_pinned_to_cores() -> None:
    cores = os.sched_getaffinity(0)
    with LocalExecutor(2) as executor:
        outcomes = in_order(executor, Fake(), jobs("affinity"))
    assert isinstance(outcomes[0], RolloutResult)
    assert outcomes[0].decisions == 1
    assert outcomes[0].changed in cores


def test_another_backend_follows_the_first() -> None:
    with LocalExecutor(1) as executor:
        first = in_order(executor, Fake(), jobs("a"))
        second = in_order(executor, Fake(name="second"), jobs("a"))
    assert [first[0].backend, second[0].backend] == ["fake", "second"]


def test_ctrl_c_leaves_no_worker() -> None:
    def interrupted() -> None:
        with LocalExecutor(2) as executor:
            for _ in executor.run(Fake(), jobs("a", "hang", "hang")):
                os.kill(os.getpid(), signal.SIGINT)

    with marked() as mark:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        ends_at = time.monotonic() + 5
        while (left := _workers(mark)) and time.monotonic() < ends_at:
            time.sleep(0.05)
    assert left == []


def _workers(mark: str) -> list[int]:
    commands = {process: Path(f"/proc/{process}/cmdline").read_bytes() for process in alive_with(mark)}
    return [process for process, command in commands.items() if b"pymlgo.rollout.worker" in command]
