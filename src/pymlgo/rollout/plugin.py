"""The plugin backend: the advisor decides inside the compiler, which is a clang of its own or the compile server."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypedDict

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.corpus.object_file import ObjectError
from pymlgo.corpus.replay import replay_command
from pymlgo.emit import compile_policy, emit_cpp
from pymlgo.errors import CorpusError, LogError, PolicyError, ToolchainError
from pymlgo.policy.policy import Policy
from pymlgo.problem import PROBLEMS
from pymlgo.rollout.backend import JOB_LIMIT_S, failure_reason, read_sizes, scratch_folder
from pymlgo.rollout.engine import Compiled, Engine, ServerLost, open_engine
from pymlgo.rollout.job import Job, Outcome, Overrides, RolloutFailure, RolloutResult, Trajectory
from pymlgo.toolchain.advisor import AdvisedProblem, advisor_flags, overrides_text, read_report
from pymlgo.toolchain.identity import cache_folder
from pymlgo.toolchain.llvm import LLVM
from pymlgo.toolchain.process import run
from pymlgo.training_log import TrainingLog, read_log

FELL_BACK = "LLVM's default stepped in"
"""The reason of a failure where a policy, or our plugin, could not decide and LLVM did."""


class Wishes(TypedDict):
    """Arguments of `advisor_flags`."""

    policies: tuple[Path, ...]
    overrides: Path | None
    log: Path | None
    problems: tuple[str, ...]


COMPILES_OF_A_SERVER = 500
"""Compiles after which a server that does not fork gives way to a fresh one: what LLVM never frees is bounded."""


class PluginBackend:
    """Compiles with the advisor plugin loaded.

    Args:
        llvm: whose clang it is.
        plugin: the advisor.
        engine: the compile server; None starts a clang for each job.
        problem: what is decided.
        fork: the server forks for each job. Without, a job is cheaper; one that crashes, or passes its limit, takes the
            server with it, and the next job starts another. Only for inlining: the others' takeover is for good.
        limit_s: wall seconds of the longest compile that is waited for.
    """

    def __init__(
        self,
        *,
        llvm: LLVM,
        plugin: Path,
        engine: Path | None = None,
        problem: str = "inlining",
        fork: bool = True,
        limit_s: float = JOB_LIMIT_S,
    ) -> None:
        self.llvm = llvm
        self.plugin = plugin
        self.engine = engine
        self.problem = problem
        self.fork = fork or problem != "inlining"
        self.limit_s = limit_s
        self._resources = ExitStack()
        self._running: Engine | None = None
        self._compiles = 0
        self._policy: tuple[Policy, Path] | None = None

    @property
    def name(self) -> str:
        """`engine` or `plugin`."""
        return "engine" if self.engine else "plugin"

    def __getstate__(self) -> dict[str, object]:
        fresh = {"_resources": ExitStack(), "_running": None, "_compiles": 0, "_policy": None}
        return {key: fresh.get(key, value) for key, value in vars(self).items()}

    def close(self) -> None:
        """End the compile server, if one runs; the next job starts another."""
        self._resources.close()
        self._running = None

    def run(self, job: Job) -> Outcome:
        """The outcome of one job (see `Backend.run`).

        Raises:
            PolicyError: the policy is for another problem, or does not fit what this compiler offers.
            ToolchainError: the compiler cannot be started.
        """
        if job.policy is not None and job.policy.problem != self.problem:
            raise PolicyError(f"the policy is for {job.policy.problem}, the compile asks about {self.problem}")
        with scratch_folder() as folder:
            try:
                return self._compile(job, folder)
            except ObjectError as error:
                return self._failure(job, "no object", str(error), 0.0)
            except LogError as error:
                return self._failure(job, "no log", str(error), 0.0)
            except CorpusError as error:
                return self._failure(job, "no command", str(error), 0.0)

    def _compile(self, job: Job, folder: Path) -> Outcome:
        output = folder / "module.o"
        command = replay_command(job.module, self.llvm.clang, output, embed=False)
        report_file = folder / "report.jsonl"
        flags = advisor_flags(self.llvm, self.plugin, report=report_file, **self._wishes(job, folder))
        done = self._execute([*command, *_of_cc1(flags)])
        if done.timed_out:
            return self._failure(job, "time limit", f"the compile took longer than {self.limit_s:g} s", done.cpu_s)
        if done.returncode:
            return self._failure(job, *failure_reason(done.returncode, done.stderr), done.cpu_s)
        report = read_report(report_file.read_text())
        for fallback in report.fallbacks:
            # LLVM's default stepped in: counting its object as the policy's would be a lie.
            return self._failure(job, FELL_BACK, fallback.reason, done.cpu_s)
        advised = report.problems.get(self.problem, AdvisedProblem(changed=0))
        trajectory = read_trajectory(folder, job.overrides) if job.record else None
        known = frozenset((*trajectory.callers, *trajectory.callees)) if trajectory else frozenset()
        sizes, functions = read_sizes(output, known)
        return RolloutResult(
            module=job.module.name,
            backend=self.name,
            sizes=sizes,
            function_bytes=functions,
            decisions=advised.decisions,
            changed=advised.changed if trajectory is None else _changed(trajectory),
            cpu_s=done.cpu_s,
            trajectory=trajectory,
            object_bytes=output.read_bytes() if job.keep_object else None,
        )

    def _wishes(self, job: Job, folder: Path) -> Wishes:
        """What the plugin is to do, as the arguments of `advisor_flags`."""
        overrides = folder / "overrides" if job.overrides else None
        if overrides and job.overrides:
            overrides.write_text(overrides_text(job.overrides.advice))
        return Wishes(
            policies=(self._compiled(job.policy),) if job.policy else (),
            overrides=overrides,
            log=folder if job.record else None,
            problems=(self.problem,),
        )

    def _execute(self, command: Sequence[bytes | str]) -> Compiled:
        if self.engine is None or os.fsdecode(command[1]) != "-cc1":
            return self._spawn(command)
        if not self.fork and self._compiles % COMPILES_OF_A_SERVER == 0:
            self.close()
        if self._running is None:
            self._running = self._resources.enter_context(open_engine(self.engine, self.plugin))
        self._compiles += 1
        try:
            return self._running.compile(command[2:], limit_s=self.limit_s, fork=self.fork)
        except ServerLost as lost:
            self.close()
            if self.fork:
                raise
            code = -signal.SIGKILL if lost.returncode is None else lost.returncode
            spent = self.limit_s if lost.silent else 0.0
            return Compiled(returncode=code, timed_out=lost.silent, stderr=str(lost).encode(), cpu_s=spent)

    def _spawn(self, command: Sequence[bytes | str]) -> Compiled:
        try:
            done = run(command, limit_s=self.limit_s)
        except ToolchainError as error:
            if "did not finish" not in str(error):
                raise
            return Compiled(returncode=-9, timed_out=True, stderr=error.stderr_tail.encode(), cpu_s=self.limit_s)
        return Compiled(returncode=done.returncode, timed_out=False, stderr=done.stderr, cpu_s=done.cpu_s)

    def _compiled(self, policy: Policy) -> Path:
        if self._policy is None or self._policy[0] is not policy:
            self._policy = (policy, compiled_policy(policy))
        return self._policy[1]

    def _failure(self, job: Job, reason: str, detail: str, cpu_s: float) -> RolloutFailure:
        return RolloutFailure(module=job.module.name, backend=self.name, reason=reason, detail=detail, cpu_s=cpu_s)


def compiled_policy(policy: Policy) -> Path:
    """The policy as a shared object, compiled once for each content and kept in the cache folder.

    Raises:
        PolicyError: it is too large to be compiled.
        ToolchainError: there is no C++ compiler, or it failed.
    """
    digest = hashlib.sha256(emit_cpp(policy).encode()).hexdigest()
    file = cache_folder("policies") / f"{digest}.so"
    if not file.exists():
        compile_policy(policy, file, name="policy")
    return file


def _of_cc1(flags: Sequence[str]) -> list[str]:
    """Flags of clang's driver as `clang -cc1` takes them: it spells `-fplugin=FILE` as two words."""
    return [word for flag in flags for word in (("-load", flag[9:]) if flag.startswith("-fplugin=") else (flag,))]


def read_trajectory(folder: Path, overrides: Overrides | None) -> Trajectory:
    """The decisions that the plugin logged into `folder`, of all contexts in order.

    Raises:
        LogError: a log is damaged.
    """
    logs = sorted(folder.glob("*.log"))
    if not logs:
        return Trajectory(specs=(), features={}, advice=_no_advice(), default=None, overridden=np.zeros(0, np.bool_))
    log = read_log(logs[0], check_byte_order=False)  # written here, just now
    if log.error is not None:
        raise log.error
    lines = logs[0].with_suffix(".decisions").read_text().splitlines()
    names = json.loads(f"[{','.join(lines)}]")
    keys = np.array([int(each["key"], 16) for each in names], np.uint64)
    return _trajectory(log, names, keys, overrides)


def _trajectory(
    log: TrainingLog,
    names: list[dict[str, str]],
    keys: np.ndarray[tuple[int], np.dtype[np.uint64]],
    overrides: Overrides | None,
) -> Trajectory:
    *specs, action = log.header.features
    columns = _columns(log)
    default = next(
        (PROBLEMS[name].default_feature for name in PROBLEMS if PROBLEMS[name].default_feature in columns), None
    )
    advice = columns.pop(action.name).reshape(-1).astype(np.int64)
    fixed = overrides.advice if overrides else {}
    return Trajectory(
        specs=tuple(specs),
        features=columns,
        advice=advice,
        default=columns[default].reshape(-1).astype(np.int64) if default else None,
        overridden=np.array([int(key) in fixed for key in keys], np.bool_),
        callers=tuple(each["caller"] for each in names),
        callees=tuple(each["callee"] for each in names),
        keys=keys,
    )


def _columns(log: TrainingLog) -> dict[str, AnyArray]:
    """Each feature of all observations, the action's included, as `[n, *shape]`."""
    records = [segment.features.records for context in log.contexts for segment in context.segments]
    if not records:
        return {spec.name: np.zeros((0, *spec.shape), spec.dtype) for spec in log.header.features}
    joined = np.concatenate(records)
    return {name: np.ascontiguousarray(joined[name]) for name in joined.dtype.names or ()}


def _no_advice() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.zeros(0, np.int64)


def _changed(trajectory: Trajectory) -> int | None:
    if trajectory.default is None:
        return None
    return int((trajectory.advice != trajectory.default).sum())
