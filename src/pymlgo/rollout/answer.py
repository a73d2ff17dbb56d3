"""A worker's answer to one job, wherever the worker is."""

from __future__ import annotations

from pymlgo.errors import MLGOError
from pymlgo.rollout.backend import Backend
from pymlgo.rollout.job import Job, Outcome, RolloutFailure


def answer(backend: Backend | None, job: Job) -> Outcome | MLGOError:
    """The outcome of `job`, or the error that says that no job of this kind can work."""
    if backend is None:
        return MLGOError("a worker was given a job before a backend")
    try:
        return backend.run(job)
    except MLGOError as error:
        return error
    except Exception as error:  # a mistake of ours about one module must not cost the others
        detail = f"{type(error).__name__}: {error}"
        return RolloutFailure(
            module=job.module.name, backend=backend.name, reason="internal error", detail=detail, cpu_s=0.0
        )
