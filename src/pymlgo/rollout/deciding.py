"""A policy as a function of an observation, as fast as this machine can have it."""

from __future__ import annotations

import functools
from pathlib import Path

from pymlgo.channel import Advise, Observation
from pymlgo.errors import PolicyError, ToolchainError
from pymlgo.policy.policy import Policy
from pymlgo.rollout.plugin import compiled_policy
from pymlgo.runner.release import CompiledModel
from pymlgo.training_log.header import Header

COSTLY = frozenset(("FULLY_CONNECTED", "TreeEnsemble"))
"""Operators that the interpreter takes 0.1 ms and more for; graphs without them are not worth a compile."""


def bound_policy(policy: Policy, header: Header) -> Advise:
    """The policy's advice for a compiler with this header: compiled where it is costly, else interpreted.

    Both give the same bits (see `emit`). Without a C++ compiler everything is interpreted.

    Raises:
        PolicyError: the policy does not fit the compiler's features.
    """
    _check_features(policy, header)
    library = _library(policy) if any(node.op in COSTLY for node in policy.graph.nodes) else None
    if library is None:
        decide = policy.bind(header.features)
        return lambda observation: decide(observation.features)
    model = CompiledModel(library)
    sent = {spec.name for spec in header.features}
    places = {spec.name: place for place, spec in enumerate(model.outputs)}
    inputs = [
        (spec.name, array) for spec, array in zip(model.inputs, model.input_arrays, strict=True) if spec.name in sent
    ]
    result = model.output_arrays[places[policy.advice]]

    def advise(observation: Observation) -> object:
        features = observation.features
        for name, array in inputs:
            array[...] = features[name]
        model.run()
        return result

    return advise


def _check_features(policy: Policy, header: Header) -> None:
    try:
        policy.check_features(header.features)
    except PolicyError as error:
        lacking = set(policy.missing(header.features)) - policy.defaults.keys()
        if not lacking:
            raise
        raise PolicyError(
            f"the policy needs {', '.join(sorted(lacking)[:3])}{' and more' if len(lacking) > 3 else ''}, "
            "which the compiler does not send over its pipes",
            hint="where the policy was trained through the advisor plugin, use that: --backend plugin",
        ) from error


@functools.lru_cache(maxsize=4)
def _library(policy: Policy) -> Path | None:
    # Keyed by identity: a worker keeps one policy object for all jobs under it.
    try:
        return compiled_policy(policy)
    except ToolchainError:
        return None
