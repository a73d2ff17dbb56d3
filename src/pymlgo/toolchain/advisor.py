"""The advisor plugin: where it is, its options, and the report that it writes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pymlgo
from pymlgo.errors import ToolchainError
from pymlgo.toolchain.flags import mllvm, plugin_flags
from pymlgo.toolchain.llvm import LLVM

PLUGIN_DIR_VARIABLE = "PYMLGO_PLUGIN_DIR"
"""Environment variable: a folder of plugins that comes before the installed ones."""

REPORT_VARIABLE = "PYMLGO_REPORT"
"""Environment variable of the plugin: the report file. Source: native/advisor/options.h."""

_PLUGIN = re.compile(r"pymlgo-advisor-llvm(\d+)\.so")


def plugin_folders() -> tuple[Path, ...]:
    """Where what was built for an LLVM may lie, the first to look at first."""
    named = os.environ.get(PLUGIN_DIR_VARIABLE)
    # An editable install has two folders: the sources, and what was built.
    return (*([Path(named)] if named else []), *(Path(each, "plugins") for each in pymlgo.__path__))


def advisor_plugins() -> Mapping[int, Path]:
    """The installed plugins by LLVM major; empty where the package was installed without LLVM's headers."""
    found: dict[int, Path] = {}
    for folder in plugin_folders():
        for file in sorted(folder.glob("pymlgo-advisor-llvm*.so")):
            match = _PLUGIN.fullmatch(file.name)
            if match:
                found.setdefault(int(match[1]), file.absolute())
    return found


def advisor_plugin(llvm: LLVM) -> Path:
    """The plugin for this LLVM.

    Raises:
        ToolchainError: none was built for its release.
    """
    plugins = advisor_plugins()
    if llvm.major in plugins:
        return plugins[llvm.major]
    there = f"installed are those for {', '.join(map(str, sorted(plugins)))}" if plugins else "none is installed"
    raise ToolchainError(
        f"no advisor plugin for LLVM {llvm.major}; {there}",
        hint=f"install LLVM's headers (Debian: llvm-{llvm.major}-dev) and pymlgo again; 22 and 19 are supported",
    )


def advisor_flags(
    llvm: LLVM,
    plugin: Path,
    *,
    policies: Iterable[Path] = (),
    overrides: Path | None = None,
    log: Path | None = None,
    problems: Sequence[str] = (),
    report: Path | None = None,
) -> tuple[str, ...]:
    """What a clang command takes for the plugin to advise.

    Args:
        llvm: whose clang it is.
        plugin: as `advisor_plugin` names it.
        policies: compiled policies, at most one for each problem.
        overrides: a file of decisions by key, see `overrides_text`.
        log: an existing folder for training logs.
        problems: what `overrides` and `log` are about; inlining by default.
        report: a file that lines are appended to, see `read_report`.
    """
    options = [f"-mlgo-policy={each}" for each in policies]
    options += [f"-mlgo-overrides={overrides}"] if overrides else []
    options += [f"-mlgo-log={log}"] if log else []
    options += [f"-mlgo-problems={','.join(problems)}"] if problems else []
    options += [f"-mlgo-report={report}"] if report else []
    return (*plugin_flags(llvm, plugin), *mllvm(options))


def overrides_text(advice: Mapping[int, float]) -> str:
    """The plugin's override file: a key of 16 hexadecimal digits and the advice on each line, sorted by key."""
    return "".join(f"{key:016x} {advice[key]:g}\n" for key in sorted(advice))


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisedProblem:
    """What the plugin did about one problem, summed over modules or functions.

    Attributes:
        policy: the name of the policy that advised; "" for none.
        decisions: all of them; by whom in `by_policy`, `by_override` and `by_default`.
        changed: decisions that differ from LLVM's default; None for problems where nobody asks for it.
        inlined: decisions to inline; 0 for other problems.
        forced_stops: modules where LLVM stopped advice because the module had grown too much.
        advice_ns: from LLVM's question to the answer, LLVM's own feature extraction included; inlining only.
        extension_ns, default_ns, policy_ns: parts of it: our own features, LLVM's default advice, the policy.
    """

    policy: str = ""
    decisions: int = 0
    changed: int | None = None
    by_policy: int = 0
    by_override: int = 0
    by_default: int = 0
    inlined: int = 0
    forced_stops: int = 0
    advice_ns: int = 0
    extension_ns: int = 0
    default_ns: int = 0
    policy_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """LLVM's default decided from some point on."""

    problem: str
    module: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLog:
    """A training log that the plugin wrote."""

    problem: str
    module: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisorReport:
    """What the plugin wrote.

    Attributes:
        active: LLVM versions of the processes that loaded the plugin, in order.
        problems: by name.
        logs: training logs that were begun; their decisions lie beside them.
        crashed: a compiler crashed while the plugin was loaded.
    """

    active: tuple[str, ...]
    problems: Mapping[str, AdvisedProblem]
    fallbacks: tuple[Fallback, ...]
    logs: tuple[WrittenLog, ...]
    crashed: bool


def read_report(text: str) -> AdvisorReport:
    """The report in lines of JSON; a line that a dying process left unfinished is passed over."""
    active: list[str] = []
    fallbacks: list[Fallback] = []
    logs: list[WrittenLog] = []
    sums: dict[str, dict[str, int]] = {}
    policies: dict[str, str] = {}
    crashed = False
    for event in _events(text):
        match event.get("event"):
            case "active":
                active.append(str(event.get("llvm", "")))
            case "fallback":
                fallbacks.append(Fallback(**{key: str(event.get(key, "")) for key in ("problem", "module", "reason")}))
            case "log":
                logs.append(WrittenLog(**{key: str(event.get(key, "")) for key in ("problem", "module", "file")}))
            case "crash":
                crashed = True
            case "module" | "function":
                problem = str(event.get("problem", ""))
                policies[problem] = str(event.get("policy") or policies.get(problem, ""))
                _add(sums.setdefault(problem, {}), event)
    problems = {name: AdvisedProblem(policy=policies[name], **counts) for name, counts in sums.items()}
    return AdvisorReport(
        active=tuple(active), problems=problems, fallbacks=tuple(fallbacks), logs=tuple(logs), crashed=crashed
    )


_COUNTS = tuple(name for name in AdvisedProblem.__slots__ if name not in ("policy", "forced_stops"))


def _events(text: str) -> Iterable[Mapping[str, object]]:
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def _add(sums: dict[str, int], event: Mapping[str, object]) -> None:
    for name in _COUNTS:
        if isinstance(value := event.get(name), int):
            sums[name] = sums.get(name, 0) + value
    sums["forced_stops"] = sums.get("forced_stops", 0) + (event.get("forced_stop") is True)
