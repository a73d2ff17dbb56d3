"""The plain backend: the very compile that a user of stock clang gets, nobody asked."""

from __future__ import annotations

from dataclasses import dataclass

from pymlgo.corpus.object_file import ObjectError
from pymlgo.corpus.replay import replay_command
from pymlgo.errors import CorpusError, PolicyError, ToolchainError
from pymlgo.rollout.backend import JOB_LIMIT_S, failure_reason, read_sizes, scratch_folder
from pymlgo.rollout.job import Job, Outcome, RolloutFailure, RolloutResult
from pymlgo.toolchain.llvm import LLVM
from pymlgo.toolchain.process import run


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainBackend:
    """Compiles with LLVM's default decisions; gives sizes, no trajectory."""

    llvm: LLVM
    limit_s: float = JOB_LIMIT_S
    name: str = "plain"

    def run(self, job: Job) -> Outcome:
        """The outcome of one job, which must leave the decisions to LLVM."""
        if job.policy is not None or job.overrides is not None or job.record:
            raise PolicyError("the plain backend asks no policy and records nothing", hint="use the pipes backend")
        with scratch_folder() as folder:
            output = folder / "module.o"
            try:
                done = run(replay_command(job.module, self.llvm.clang, output, embed=False), limit_s=self.limit_s)
                if done.returncode:
                    reason, detail = failure_reason(done.returncode, done.stderr)
                    return self._failure(job, reason, detail, done.cpu_s)
                sizes, functions = read_sizes(output)
                content = output.read_bytes() if job.keep_object else None
            except ToolchainError as error:
                if "did not finish" not in str(error):
                    raise
                return self._failure(job, "time limit", str(error), self.limit_s)
            except ObjectError as error:
                return self._failure(job, "no object", str(error), done.cpu_s)
            except CorpusError as error:
                return self._failure(job, "no command", str(error), 0.0)
        return RolloutResult(
            module=job.module.name,
            backend=self.name,
            sizes=sizes,
            function_bytes=functions,
            decisions=0,
            changed=0,
            cpu_s=done.cpu_s,
            object_bytes=content,
        )

    def _failure(self, job: Job, reason: str, detail: str, cpu_s: float) -> RolloutFailure:
        return RolloutFailure(module=job.module.name, backend=self.name, reason=reason, detail=detail, cpu_s=cpu_s)
