"""A backend for tests of the pool, importable by its workers."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from pymlgo.errors import PolicyError
from pymlgo.rollout import Job, Outcome, RolloutResult, Sizes


@dataclass(frozen=True)
class Fake:
    """Does what the module's name says."""

    name: str = "fake"

    def run(self, job: Job) -> Outcome:
        decisions = changed = 0
        match job.module.name:
            case "slow":
                time.sleep(0.3)
            case "hang":
                time.sleep(1000)
            case "die":
                os._exit(3)
            case "mistake":
                decisions = 1 // 0
            case "unfit":
                raise PolicyError("the policy does not fit", hint="another one")
            case "affinity":
                cores = os.sched_getaffinity(0)
                decisions, changed = len(cores), min(cores)
        return RolloutResult(
            module=job.module.name,
            backend=self.name,
            sizes=Sizes(text_bytes=1, berkeley_bytes=1),
            function_bytes={},
            decisions=decisions,
            changed=changed,
            cpu_s=0.0,
        )
