"""A model that may change while the compiler runs: a policy directory, evaluated by LiteRT or by our interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from pymlgo.arrays import AnyArray
from pymlgo.errors import MissingDependency, PolicyError, SpecError
from pymlgo.policy.directory import POLICY_FILE, Policy, load_policy, tflite_file
from pymlgo.policy.interpreter import Interpreter
from pymlgo.policy.tflite.development_mode import FEED_PREFIX, MODEL_FILE, OUTPUT_SPEC_FILE, read_output_specs
from pymlgo.runner.litert import LiteRTModel
from pymlgo.runner.model_runner import MLModelRunner, check_same_tensor
from pymlgo.tensor_spec import TensorSpec

Executor: TypeAlias = Literal["litert", "interpreter"]
Evaluate: TypeAlias = Callable[[Mapping[str, AnyArray]], Mapping[str, AnyArray]]


class ModelUnderTrainingRunner(MLModelRunner):
    """Decides as the policy in `directory` says, and takes up a changed policy when the context switches.

    The buffers belong to the runner and outlive every change of the policy; a feature that a policy does not know is
    not read. The policy's other outputs can be logged beside the decision.

    Source: llvm/Analysis/ModelUnderTrainingRunner.h (LLVM 22). Departures: LLVM loads once; without LiteRT the
    policy's graph is interpreted; a mismatch names both sides.

    Args:
        inputs: the compiler's features.
        directory: a policy directory, or `model.tflite` and `output_spec.json`.
        executor: what evaluates; by default LiteRT where it is installed and the directory has a TFLite form.

    Raises:
        PolicyError: the directory is unusable, or does not fit the features; from `switch_context` and `reload` too,
            the policy in use then stays.
        MissingDependency: LiteRT is asked for and not installed.
    """

    def __init__(self, inputs: Sequence[TensorSpec], directory: Path, *, executor: Executor | None = None) -> None:
        self._directory = directory
        self._wanted = executor
        self._stamp = _stamp(directory)
        loaded = load_policy(directory)
        super().__init__(inputs, loaded.graph.decision)
        self._results: Mapping[str, AnyArray] | None = None
        for index, spec in enumerate(inputs):
            self.set_up_buffer_for_tensor(index, spec, None)
        self._take(loaded)

    @property
    def executor(self) -> Executor:
        """What evaluates the policy."""
        return self._executor

    @property
    def extra_outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs after the decision, for a log."""
        return self._policy.graph.output_specs[1:]

    def extra_output(self, index: int) -> AnyArray:
        """The value of an extra output in the last evaluation."""
        if not 0 <= index < len(self.extra_outputs) or self._results is None:
            evaluated = "" if self._results is not None else ", and nothing was evaluated yet"
            raise SpecError(f"the policy has {len(self.extra_outputs)} extra outputs{evaluated}, found index {index}")
        return self._results[self.extra_outputs[index].name]

    def switch_context(self, name: str) -> None:
        """Take up a policy that changed: the decisions of one context come from one policy."""
        self.reload()

    def reload(self) -> bool:
        """Load the directory again if its files changed; True if they did."""
        stamp = _stamp(self._directory)
        if stamp == self._stamp:
            return False
        loaded = load_policy(self._directory)
        before, now = self._policy.graph.output_specs, loaded.graph.output_specs
        if before != now:  # a log that is being written has these tensors in its header
            raise PolicyError(f"{self._directory}: the policy's outputs changed from {_names(before)} to {_names(now)}")
        self._take(loaded)
        self._stamp = stamp
        return True

    def evaluate_untyped(self) -> AnyArray:
        """Evaluate the policy."""
        results = self._results = self._evaluate(self._bound)
        return results[self.advice.name]

    def _take(self, policy: Policy) -> None:
        known = {spec.name: spec for spec in policy.graph.inputs}
        for spec in self.inputs:
            if spec.name in known:
                check_same_tensor(spec, known[spec.name], f"the policy in {self._directory}")
        policy.check_features(self.inputs)
        evaluate, executor = self._evaluator(policy)
        buffers = {spec.name: self.get_tensor(index) for index, spec in enumerate(self.inputs) if spec.name in known}
        self._policy, self._evaluate, self._executor = policy, evaluate, executor
        self._bound: dict[str, AnyArray] = {**policy.default_inputs(), **buffers}
        self._results = None

    def _evaluator(self, policy: Policy) -> tuple[Evaluate, Executor]:
        if self._wanted != "interpreter":
            try:
                return litert_of(self._directory, policy), "litert"
            except (MissingDependency, PolicyError):
                if self._wanted == "litert":
                    raise
        return Interpreter(policy.graph), "interpreter"


def litert_of(directory: Path, policy: Policy) -> LiteRTModel:
    """LiteRT on the `model.tflite` of a policy directory, by the policy's names of inputs and outputs.

    Raises:
        MissingDependency: LiteRT is not installed.
        PolicyError: the directory has no TFLite form, or LiteRT cannot load it.
    """
    file = tflite_file(directory)
    specs = read_output_specs(directory / OUTPUT_SPEC_FILE)
    outputs = {name: f"{spec.name}:{spec.port}" for name, spec in specs}
    return LiteRTModel(file, {spec.name: f"{FEED_PREFIX}{spec.name}:0" for spec in policy.graph.inputs}, outputs)


def _names(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(f"{spec.name} {spec.type} {list(spec.shape)}" for spec in specs)


def _stamp(directory: Path) -> tuple[tuple[str, int, int, int], ...]:
    """What tells one state of the directory's main files from another."""
    found = []
    for name in (POLICY_FILE, MODEL_FILE, OUTPUT_SPEC_FILE):
        try:
            status = (directory / name).stat()
        except OSError:
            continue
        found.append((name, status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)
