"""The compiler's end of the interactive channel, so that a Python program can be the compiler."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import ChannelError
from pymlgo.runner.model_runner import MLModelRunner
from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log import Header, LogWriter


class InteractiveModelRunner(MLModelRunner):
    """Every decision is written to `<base>.out` and answered by a host on `<base>.in`.

    The two are named pipes (or plain files: a recorded `.in` replays its answers). Opening waits for the host, `.in`
    first, as LLVM does. A context manager; `close` ends the conversation.

    Source: llvm/lib/Analysis/InteractiveModelRunner.cpp (LLVM 22). Departures: where LLVM reads on for ever after its
    host is gone, this raises.

    Raises:
        ChannelError: a pipe cannot be opened, or (from `evaluate` and `switch_context`) the host is gone.
    """

    def __init__(self, inputs: Sequence[TensorSpec], advice: TensorSpec, base: Path) -> None:
        super().__init__(inputs, advice)
        for index, spec in enumerate(inputs):
            self.set_up_buffer_for_tensor(index, spec, None)
        self._base = base
        self._output: AnyArray = np.zeros(advice.shape, advice.dtype)
        with contextlib.ExitStack() as stack:
            self._inbound: BinaryIO = stack.enter_context(_opened(Path(f"{base}.in"), for_writing=False))
            self._outbound: BinaryIO = stack.enter_context(_opened(Path(f"{base}.out"), for_writing=True))
            with self._host_may_be_gone():
                self._log = LogWriter(self._outbound, Header(features=self.inputs, advice=advice))
                self._outbound.flush()
            self._open_files = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the conversation: the host sees the end of `<base>.out`."""
        with contextlib.suppress(BrokenPipeError):
            self._open_files.close()

    def switch_context(self, name: str) -> None:
        """Tell the host that the next decisions belong to `name`."""
        with self._host_may_be_gone():
            self._log.context(name)
            self._outbound.flush()

    def evaluate_untyped(self) -> AnyArray:
        """Send the features, wait for the advice."""
        values = {spec.name: self.get_tensor(index) for index, spec in enumerate(self.inputs)}
        with self._host_may_be_gone():
            self._log.observation(values)
            self._outbound.flush()
        received = self._inbound.read(self.advice.byte_size)
        if len(received) < self.advice.byte_size:
            raise ChannelError(
                f"{self._base}.in ended after {len(received)} of {self.advice.byte_size} bytes of advice: the host left"
            )
        self._output[...] = self.advice.view(received)
        return self._output

    @contextlib.contextmanager
    def _host_may_be_gone(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError as error:
            raise ChannelError(f"{self._base}.out: nobody reads it any more: the host left") from error


def _opened(path: Path, *, for_writing: bool) -> BinaryIO:
    try:
        return path.open("wb") if for_writing else path.open("rb")
    except OSError as error:
        raise ChannelError(
            f"{path}: cannot be opened: {error.strerror}", hint="the host makes both pipes before the compiler starts"
        ) from error
