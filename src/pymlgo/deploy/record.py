"""`record`: a training log from a stock clang, with outcomes, through the plugin."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pymlgo.atomic_file import writing
from pymlgo.corpus.object_file import ObjectError
from pymlgo.corpus.objects import function_sizes
from pymlgo.deploy.command import CompileCommand, parse_compile
from pymlgo.errors import LogError
from pymlgo.tensor_spec import TensorSpec
from pymlgo.toolchain.advisor import advisor_flags, advisor_plugin, read_report
from pymlgo.toolchain.llvm import LLVM
from pymlgo.toolchain.process import run
from pymlgo.training_log import Header, LogWriter, TrainingLog, read_log

RECORD_LIMIT_S = 3600.0

CALLER_BYTES = TensorSpec("caller_bytes", "int64_t", (1,))
"""Outcome of an inlining decision: bytes of the caller in the object; 0 where it is gone, inlined or dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a recorded compile left.

    Attributes:
        log: the training log; its last feature is the advice that was taken.
        decisions_file: a JSON object for each observation, in order: decision key, caller and callee, module.
        returncode: the compiler's.
        modules: compiled modules that asked anything.
        observations: in the log.
        backend: who decided and recorded.
    """

    log: Path
    decisions_file: Path
    returncode: int
    modules: int
    observations: int
    backend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One log that the plugin wrote, and its list of decisions."""

    module: str
    log: TrainingLog
    decisions: tuple[Mapping[str, str], ...]


def record(
    llvm: LLVM,
    arguments: Sequence[str],
    log: Path,
    *,
    problem: str = "inlining",
    policies: Sequence[Path] = (),
    overrides: Path | None = None,
) -> Recorded:
    """Compile and record every decision with its features, LLVM's default advice, the advice taken and an outcome.

    Inlining: the outcome is `CALLER_BYTES` where the command compiles to objects, else there is none. Eviction and
    priority: LLVM's own score of the allocation, all of it at a function's last decision as LLVM's development mode
    does.

    Args:
        llvm: whose clang compiles.
        arguments: of clang.
        log: the file to write.
        problem: what to record.
        policies: compiled policies that decide; LLVM's default without.
        overrides: decisions by key that beat them.

    Raises:
        ToolchainError: there is no plugin for this LLVM.
        LogError: the compile asked nothing, or the log is damaged.
    """
    plugin = advisor_plugin(llvm)
    with tempfile.TemporaryDirectory(prefix="mlgo-record-") as name:
        folder, report = Path(name), Path(name, "report")
        flags = advisor_flags(
            llvm, plugin, policies=policies, overrides=overrides, log=folder, problems=(problem,), report=report
        )
        done = run([llvm.clang, *flags, *arguments], limit_s=RECORD_LIMIT_S)
        os.write(2, done.stderr)
        os.write(1, done.stdout)
        parts = [_read_part(file, module) for file, module in _logs(report)]
        if not parts:
            why = "the compile made no decision of this kind" if done.returncode == 0 else "the compile failed"
            raise LogError(
                why,
                file=str(log),
                offset=0,
                hint="-O0 makes none; link-time optimization decides when it links",
            )
        sizes = _caller_sizes(parse_compile(arguments)) if problem == "inlining" else None
        decisions_file = log.with_name(log.name + ".decisions")
        observations = _write(log, decisions_file, parts, sizes)
    return Recorded(
        log=log,
        decisions_file=decisions_file,
        returncode=done.returncode,
        modules=len(parts),
        observations=observations,
        backend="plugin",
    )


def _logs(report: Path) -> tuple[tuple[Path, str], ...]:
    """Logs that the plugin wrote and their modules, by module."""
    if not report.exists():
        return ()
    logs = read_report(report.read_text(errors="replace")).logs
    return tuple(sorted(((Path(each.file), each.module) for each in logs), key=lambda log: log[1]))


def _read_part(file: Path, module: str) -> _Part:
    log = read_log(file)
    if log.error is not None:
        raise log.error
    decisions = file.with_suffix(".decisions").read_text(encoding="utf-8").splitlines()
    return _Part(module=module, log=log, decisions=tuple(map(json.loads, decisions)))


def _caller_sizes(command: CompileCommand | None) -> dict[str, dict[str, int]] | None:
    """Function sizes by source; None where the command leaves no objects that can be read."""
    if command is None:
        return None
    try:
        return {each.source: function_sizes(Path(each.object).read_bytes()) for each in command.objects}
    except (ObjectError, OSError):
        return None


def _write(
    log: Path, decisions_file: Path, parts: Sequence[_Part], sizes: Mapping[str, Mapping[str, int]] | None
) -> int:
    first = parts[0].log.header
    with_sizes = sizes is not None and all(part.module in sizes for part in parts)
    header = Header(
        features=first.features,
        score=CALLER_BYTES if with_sizes else first.score,
        extra={"backend": "plugin", **first.extra},
    )
    observations = 0
    with writing(log) as stream, writing(decisions_file) as listed, LogWriter(stream, header) as writer:
        for part in parts:
            if part.log.header.features != first.features:
                raise LogError("two modules of one compile have different features", file=str(log), offset=0)
            of_module = sizes[part.module] if with_sizes and sizes is not None else None
            decisions = iter(part.decisions)
            for context, features, outcome in _observations(part.log):
                if context is not None:
                    writer.context(context)
                    continue
                decision = next(decisions, {})
                writer.observation(features)
                if of_module is not None:
                    writer.outcome(of_module.get(decision.get("caller", ""), 0))
                elif header.score is not None:
                    writer.outcome(outcome)
                listed.write((json.dumps({**decision, "module": part.module}) + "\n").encode())
                observations += 1
    return observations


def _observations(log: TrainingLog) -> Iterator[tuple[str | None, Mapping[str, object], object]]:
    """Contexts by name and, between them, observations: features and outcome."""
    names = [spec.name for spec in log.header.features]
    for context in log.contexts:
        yield context.name, {}, None
        for segment in context.segments:
            columns = {name: np.asarray(segment.features[name]) for name in names}
            for row in range(segment.count):
                outcome = None if segment.outcomes is None else segment.outcomes[row]
                yield None, {name: column[row] for name, column in columns.items()}, outcome
