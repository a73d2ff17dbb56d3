"""A backend for tests of the Ray executor, importable by its workers."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from pymlgo.rollout import Job, Outcome, RolloutResult, Sizes
from pymlgo.toolchain.process import run


@dataclass(frozen=True)
class Scripted:
    """Does what the module's name says, and notes in `folder` that it was asked to."""

    folder: Path
    name: str = "scripted"

    def run(self, job: Job) -> Outcome:
        word, _, rest = job.module.name.partition(" ")
        with (self.folder / "asked").open("a") as stream:
            stream.write(f"{job.module.name}\n")
        match word:
            case "sleep":
                time.sleep(0.1)
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "die-once" if not (self.folder / rest).exists():
                (self.folder / rest).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            case "compile":
                run(("sleep", "1000"), limit_s=1000)
        content = job.module.bitcode.read_bytes() if job.module.bitcode.exists() else b""
        return RolloutResult(
            module=job.module.name,
            backend=hashlib.sha256(content).hexdigest(),
            sizes=Sizes(text_bytes=len(content), berkeley_bytes=0),
            function_bytes={str(job.module.bitcode): 0},
            decisions=os.getpid(),
            changed=len(job.overrides.recorded) if job.overrides else id(job.policy),
            cpu_s=0.0,
        )

    def asked(self) -> list[str]:
        """The names of the jobs that were begun, in order."""
        return (self.folder / "asked").read_text().splitlines()
