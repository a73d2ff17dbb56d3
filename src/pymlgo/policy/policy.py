"""A policy: a graph, what it is for, and how it is bound to a compiler's features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import PolicyError, SpecError
from pymlgo.policy.graph import Graph
from pymlgo.policy.interpreter import Interpreter
from pymlgo.policy.values import check_identifier
from pymlgo.tensor_spec import TensorSpec

Decide: TypeAlias = Callable[[Mapping[str, AnyArray]], AnyArray]
"""From features by name (as the compiler sends them) to the advice tensor."""

DefaultValue: TypeAlias = int | float | Sequence[int] | Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Policy:
    """A model of one of LLVM's decisions.

    Attributes:
        problem: which decision, e.g. `inlining`; the names are those of `pymlgo.problem`.
        graph: what it computes; normalisation is part of it. Its output 0 is the decision.
        advice: the name of output 0, which is LLVM's name of the decision, e.g. `inlining_decision`.
        defaults: for features that a compiler may lack, the value to take then (a scalar fills the tensor).
        provenance: where it comes from, as JSON: LLVM versions seen, corpus hash, metrics, seed, …

    Raises:
        PolicyError: `advice` is not output 0, or a default does not fit its input.
    """

    problem: str
    graph: Graph
    advice: str
    defaults: Mapping[str, DefaultValue] = field(default_factory=dict)
    provenance: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_identifier(self.problem, "problem")
        decision = self.graph.outputs[0].name
        if self.advice != decision:
            raise PolicyError(f"the advice is {self.advice!r}, but output 0 of the graph is {decision!r}")
        known = {spec.name for spec in self.graph.inputs}
        for name in self.defaults:
            if name not in known:
                raise PolicyError(f"default of {name!r}: the graph has no such input")
        self.default_inputs()

    def default_inputs(self) -> dict[str, AnyArray]:
        """The defaults as tensors of their inputs' types and shapes."""
        specs = {spec.name: spec for spec in self.graph.inputs}
        return {name: _filled(specs[name], value) for name, value in self.defaults.items()}

    def bind(self, features: Sequence[TensorSpec]) -> Decide:
        """The policy as a function of a compiler's features, which are bound by name.

        A feature that the model does not know is ignored; one that the compiler lacks takes its default.

        Raises:
            PolicyError: the two differ in type or shape under an equal name, or a feature without default is missing.
        """
        self.check_features(features)
        defaults = {name: value for name, value in self.default_inputs().items() if name in self.missing(features)}
        interpreter = Interpreter(self.graph)
        if not defaults:
            return lambda observed: interpreter(observed)[self.advice]
        return lambda observed: interpreter({**observed, **defaults})[self.advice]

    def missing(self, features: Sequence[TensorSpec]) -> tuple[str, ...]:
        """Inputs of the graph that are not among `features`."""
        given = {spec.name for spec in features}
        return tuple(spec.name for spec in self.graph.inputs if spec.name not in given)

    def check_features(self, features: Sequence[TensorSpec]) -> None:
        """Accept features that `bind` can take.

        Raises:
            PolicyError: as `bind`.
        """
        given = {spec.name: spec for spec in features}
        for wanted in self.graph.inputs:
            found = given.get(wanted.name)
            if found is not None and (found.type, found.shape) != (wanted.type, wanted.shape):
                raise PolicyError(
                    f"feature {wanted.name!r}: the policy takes {wanted.type} {list(wanted.shape)}, "
                    f"the compiler sends {found.type} {list(found.shape)}",
                    hint="the policy was made for another LLVM or target; train one from this compiler's features",
                )
        lacking = [name for name in self.missing(features) if name not in self.defaults]
        if lacking:
            raise PolicyError(
                f"the policy needs {', '.join(map(repr, lacking))}, which the compiler does not send",
                hint="give those features a default in policy.json, or use the compiler that the policy was made for",
            )


def _filled(spec: TensorSpec, value: DefaultValue) -> AnyArray:
    try:
        if isinstance(value, int | float):
            return np.full(spec.shape, spec.array(np.full(spec.shape, value)))
        return spec.array(value)
    except SpecError as error:
        raise PolicyError(f"default of {spec.name!r}: {error}") from error
