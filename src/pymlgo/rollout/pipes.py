"""The pipes backend: stock clang asks over its interactive channel, this process answers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from pymlgo.channel import Advise, Limits, Observation, host
from pymlgo.corpus.object_file import ObjectError
from pymlgo.corpus.replay import replay_command
from pymlgo.errors import ChannelError, CorpusError, PolicyError
from pymlgo.problem import PROBLEMS, Problem
from pymlgo.rollout.alignment import Alignment
from pymlgo.rollout.backend import failure_reason, read_sizes, scratch_folder
from pymlgo.rollout.deciding import bound_policy
from pymlgo.rollout.job import Job, Outcome, RolloutFailure, RolloutResult
from pymlgo.rollout.recording import Recorder
from pymlgo.rollout.remarks import read_remarks, remark_flags
from pymlgo.toolchain.llvm import LLVM
from pymlgo.training_log.header import Header


@dataclass(frozen=True, slots=True, kw_only=True)
class PipesBackend:
    """Compiles with every decision of `problem` made here; needs nothing but a clang that has the channel."""

    llvm: LLVM
    problem: str = "inlining"
    limits: Limits = field(default_factory=Limits)
    name: str = "pipes"

    def run(self, job: Job) -> Outcome:
        """The outcome of one job (see `Backend.run`).

        Raises:
            PolicyError: the policy is for another problem, or does not fit what this compiler sends.
        """
        problem = PROBLEMS[self.problem]
        if job.policy is not None and job.policy.problem != problem.name:
            raise PolicyError(f"the policy is for {job.policy.problem}, the compile asks about {problem.name}")
        started = time.process_time()
        with scratch_folder() as folder:
            try:
                return self._compile(job, problem, folder, started)
            except ChannelError as error:
                return self._failure(job, _channel_reason(error), str(error), time.process_time() - started)
            except ObjectError as error:
                return self._failure(job, "no object", str(error), time.process_time() - started)
            except CorpusError as error:
                return self._failure(job, "no command", str(error), 0.0)

    def _compile(self, job: Job, problem: Problem, folder: Path, started: float) -> Outcome:
        output, remarks = folder / "module.o", folder / "remarks.yaml"
        recorder = Recorder(problem.default_feature, keep=job.record)
        command = replay_command(job.module, self.llvm.clang, output, embed=False)
        with_names = job.names and problem.name == "inlining"
        if with_names:
            command += remark_flags(command, remarks)
        correct = problem.correction(self.llvm)
        only_served = job.policy is not None and job.overrides is None and not job.record
        # An LLVM whose default has to be corrected loses a feature by it; who needs no default asks for none.
        without_default = correct is not None and only_served
        flags = problem.serving_flags if without_default else problem.channel_flags
        done = host(
            command,
            flags=lambda base: flags(self.llvm, base),
            correct=None if without_default else correct,
            on_header=lambda header: _advise(job, problem, header, recorder),
            check_advice=problem.check_advice,
            listener=recorder,
            limits=self.limits,
            core=None,  # the worker is on its core already, and a caller without a pool may want none
        )
        cpu_s = done.cpu_s + time.process_time() - started
        if done.returncode:
            reason, detail = failure_reason(done.returncode, done.stderr)
            return self._failure(job, reason, detail, cpu_s)
        trajectory = recorder.trajectory(read_remarks(remarks) if with_names else None) if job.record else None
        known = frozenset((*trajectory.callers, *trajectory.callees)) if trajectory else frozenset()
        sizes, functions = read_sizes(output, known)
        return RolloutResult(
            module=job.module.name,
            backend=self.name,
            sizes=sizes,
            function_bytes=functions,
            decisions=recorder.decisions,
            changed=recorder.changed,
            cpu_s=cpu_s,
            trajectory=trajectory,
            object_bytes=output.read_bytes() if job.keep_object else None,
        )

    def _failure(self, job: Job, reason: str, detail: str, cpu_s: float) -> RolloutFailure:
        return RolloutFailure(module=job.module.name, backend=self.name, reason=reason, detail=detail, cpu_s=cpu_s)


def _advise(job: Job, problem: Problem, header: Header, recorder: Recorder) -> Advise:
    """Who answers this compiler: the job's overrides where they speak, else its policy, else LLVM's default."""
    decide = _policy_or_default(job, problem, header)
    if job.overrides is None:
        return decide
    alignment = Alignment(job.overrides, header)

    def advise(observation: Observation) -> object:
        override = alignment.advice(observation)
        if override is None:
            return decide(observation)
        recorder.mark_overridden()
        return override

    return advise


def _policy_or_default(job: Job, problem: Problem, header: Header) -> Advise:
    if job.policy is not None:
        return bound_policy(job.policy, header)
    default = problem.default_feature
    if default is None or default not in {spec.name for spec in header.features}:
        raise PolicyError(
            f"the compiler does not say what its default is for {problem.name}", hint="name a policy for this problem"
        )
    return lambda observation: observation.features[default]


def _channel_reason(error: ChannelError) -> str:
    text = str(error)
    if "did not finish within" in text or "said nothing for" in text:
        return "time limit"
    return "crash" if "died from" in text else "channel"
