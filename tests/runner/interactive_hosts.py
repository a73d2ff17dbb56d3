"""Hosts for `InteractiveModelRunner`, in a thread of the test."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pymlgo import InteractiveModelRunner, TensorSpec
from pymlgo.training_log import Header, ObservationEvent, stream_log

Decide = Callable[[dict[str, np.ndarray]], object]
MakeRunner = Callable[[Sequence[TensorSpec], TensorSpec], InteractiveModelRunner]


def serve(base: Path, decide: Decide) -> None:
    """Answer one conversation, as LLVM's own interactive_host.py does."""
    with (
        Path(f"{base}.in").open("wb", buffering=0) as answers,
        Path(f"{base}.out").open("rb", buffering=0) as questions,
    ):
        answer(questions, answers, decide)


def answer(questions: BinaryIO, answers: BinaryIO, decide: Decide) -> None:
    advice = None
    for event in stream_log(questions):
        match event:
            case Header():
                advice = event.advice
            case ObservationEvent():
                assert advice is not None
                values = {name: np.array(value) for name, value in event.features.items()}
                answers.write(np.asarray(decide(values), advice.dtype).reshape(advice.shape).tobytes())


@contextmanager
def answering(
    folder: Path, decide: Decide
) -> Iterator[Callable[[Sequence[TensorSpec], TensorSpec], InteractiveModelRunner]]:
    """A factory of runners, each with pipes and a host of its own; all are closed and joined at the end."""
    runners: list[InteractiveModelRunner] = []
    threads: list[threading.Thread] = []

    def make(inputs: Sequence[TensorSpec], advice: TensorSpec) -> InteractiveModelRunner:
        base = folder / f"channel{len(runners)}"
        for end in (".in", ".out"):
            os.mkfifo(f"{base}{end}")
        threads.append(threading.Thread(target=serve, args=(base, decide), daemon=True))
        threads[-1].start()
        runners.append(InteractiveModelRunner(inputs, advice, base))
        return runners[-1]

    try:
        yield make
    finally:
        for runner in runners:
            runner.close()
        for thread in threads:
            thread.join(10)
