"""A worker process of `LocalExecutor`: `python -m pymlgo.rollout.worker [CPU]` runs the jobs that its stdin brings."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from typing import BinaryIO

from pymlgo.policy.directory import Policy
from pymlgo.rollout.answer import answer
from pymlgo.rollout.backend import Backend
from pymlgo.rollout.frames import read_frame, write_frame
from pymlgo.rollout.job import Job


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer each `("job", Job)` with its outcome, or with the error that says that no job can work.

    `("backend", Backend)` and `("policy", Policy)` say what the jobs after them use: a policy crosses the pipe once,
    not with each job.
    """
    backend: Backend | None = None
    policy: Policy | None = None
    with contextlib.suppress(EOFError):
        while True:
            match read_frame(requests):
                case "backend", new_backend:
                    backend = new_backend  # type: ignore[assignment]
                case "policy", new_policy:
                    policy = new_policy  # type: ignore[assignment]
                case "job", Job() as job:
                    write_frame(replies, answer(backend, dataclasses.replace(job, policy=policy)))


def main() -> None:
    """Serve on stdin and stdout, on the one core that the argument names."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the frames
    if len(sys.argv) > 1:
        with contextlib.suppress(OSError):  # the core may have been taken from us
            os.sched_setaffinity(0, {int(sys.argv[1])})
    with contextlib.suppress(BrokenPipeError):
        serve(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
