"""What a policy is, and how two differ, as values to print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import PolicyError
from pymlgo.policy.directory import load_policy, tflite_file
from pymlgo.policy.interpreter import Interpreter
from pymlgo.policy.policy import Policy
from pymlgo.training_log import TrainingLog


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySummary:
    """A policy at a glance.

    Attributes:
        problem: which of LLVM's decisions it makes.
        advice: the decision, as LLVM writes a spec.
        features: the inputs.
        extra_outputs: what it computes beside the decision.
        defaults: values for features that a compiler may lack.
        operators: how many nodes of each.
        parameters: floating-point constants.
        fingerprint: SHA-256 of what decides what it computes.
        tflite: the file of its TFLite form; None where it has none.
        tflite_refusal: why it has none.
        provenance: what training recorded.
    """

    problem: str
    advice: Mapping[str, object]
    features: tuple[Mapping[str, object], ...]
    extra_outputs: tuple[Mapping[str, object], ...]
    defaults: Mapping[str, object]
    operators: Mapping[str, int]
    parameters: int
    fingerprint: str
    tflite: str | None
    tflite_refusal: str | None
    provenance: Mapping[str, object]


def summarize(directory: Path) -> PolicySummary:
    """The policy in `directory` at a glance.

    Raises:
        PolicyError: as `load_policy`.
    """
    policy = load_policy(directory)
    graph = policy.graph
    tflite, refusal = None, None
    try:
        tflite = tflite_file(directory).name
    except PolicyError as error:
        refusal = str(error)
    return PolicySummary(
        problem=policy.problem,
        advice=graph.decision.to_dict(),
        features=tuple(spec.to_dict() for spec in graph.inputs),
        extra_outputs=tuple(spec.to_dict() for spec in graph.output_specs[1:]),
        defaults=dict(policy.defaults),
        operators=dict(sorted(Counter(node.op for node in graph.nodes).items())),
        parameters=graph.parameter_count,
        fingerprint=graph.fingerprint(),
        tflite=tflite,
        tflite_refusal=refusal,
        provenance=dict(policy.provenance),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDifference:
    """How a second policy differs from a first.

    Attributes:
        same: both compute the same and have the same defaults.
        features_added, features_removed, features_changed: names; changed are those of another type or shape.
        defaults_changed: names whose default was added, removed or changed.
        operators: for each operator whose number changed, the two numbers.
        same_structure: only the constants' elements differ, if anything does.
        constants_changed: constants with other elements (of equal structures).
        largest_constant_change: largest absolute difference of an element of those.
        decisions: how many recorded observations were compared.
        equal_decisions: how many of them got the same decision.
    """

    same: bool
    features_added: tuple[str, ...]
    features_removed: tuple[str, ...]
    features_changed: tuple[str, ...]
    defaults_changed: tuple[str, ...]
    operators: Mapping[str, tuple[int, int]]
    same_structure: bool
    constants_changed: int
    largest_constant_change: float
    decisions: int = 0
    equal_decisions: int = 0


def compare(first: Policy, second: Policy, log: TrainingLog | None = None) -> PolicyDifference:
    """How `second` differs from `first`, and on a log's observations how often they decide alike.

    Raises:
        PolicyError: a policy cannot take the log's features.
    """
    before = {spec.name: (spec.type, spec.shape) for spec in first.graph.inputs}
    after = {spec.name: (spec.type, spec.shape) for spec in second.graph.inputs}
    counts = [Counter(node.op for node in each.graph.nodes) for each in (first, second)]
    same_structure = first.graph.structure() == second.graph.structure()
    changes = _constant_changes(first, second) if same_structure else []
    decisions, equal = _compared_decisions(first, second, log) if log else (0, 0)
    defaults = {**first.defaults, **second.defaults}
    changed_defaults = tuple(name for name in defaults if first.defaults.get(name) != second.defaults.get(name))
    return PolicyDifference(
        same=first.graph.fingerprint() == second.graph.fingerprint() and not changed_defaults,
        features_added=tuple(name for name in after if name not in before),
        features_removed=tuple(name for name in before if name not in after),
        features_changed=tuple(name for name in after if name in before and after[name] != before[name]),
        defaults_changed=changed_defaults,
        operators={
            op: (counts[0][op], counts[1][op]) for op in sorted(counts[0] | counts[1]) if counts[0][op] != counts[1][op]
        },
        same_structure=same_structure,
        constants_changed=len(changes),
        largest_constant_change=max(changes, default=0.0),
        decisions=decisions,
        equal_decisions=equal,
    )


def _constant_changes(first: Policy, second: Policy) -> list[float]:
    found = []
    for name, array in first.graph.constants.items():
        other = second.graph.constants[name]
        if not np.array_equal(array, other):
            with np.errstate(invalid="ignore"):  # inf - inf
                found.append(float(np.nanmax(np.abs(array.astype(np.float64) - other.astype(np.float64)))))
    return found


def _compared_decisions(first: Policy, second: Policy, log: TrainingLog) -> tuple[int, int]:
    compared = equal = 0
    for policy in (first, second):
        policy.check_features(log.header.features)
    deciders = [(policy, Interpreter(policy.graph)) for policy in (first, second)]
    for context in log.contexts:
        if not len(context):
            continue
        made = [_decisions(policy, interpreter, context.features, len(context)) for policy, interpreter in deciders]
        compared += len(context)
        equal += int((made[0] == made[1]).reshape(len(context), -1).all(axis=1).sum())
    return compared, equal


def _decisions(policy: Policy, interpreter: Interpreter, features: Mapping[str, AnyArray], count: int) -> AnyArray:
    missing = [name for name in policy.defaults if name not in features]
    defaults = policy.default_inputs()
    filled = {name: np.broadcast_to(defaults[name], (count, *defaults[name].shape)) for name in missing}
    return interpreter.batch({**features, **filled})[policy.advice]
