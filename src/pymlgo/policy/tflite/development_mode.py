"""The two files that LLVM's development mode loads, `model.tflite` and `output_spec.json`, under its loader's rules.

The rules, asserted when we write and when we read: the i-th input is tensor i; an input is called `action_<feature>:0`;
`output_spec.json` is a list of `{"logging_name", "tensor_spec"}`, the first of them the decision; an output is found by
the name and port of its spec and is float, int32_t or int64_t.

Source: llvm/lib/Analysis/TFLiteUtils.cpp, ModelUnderTrainingRunner.cpp and loadOutputSpecs (LLVM 22). Departures: LLVM
compares bytes only and takes an unknown output for output 0; both are errors here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from pymlgo import atomic_file
from pymlgo.errors import PolicyError, SpecError
from pymlgo.policy.graph import Graph
from pymlgo.policy.limited_file import read_limited
from pymlgo.policy.policy import DefaultValue, Policy
from pymlgo.policy.tflite.lowering import lowered
from pymlgo.policy.tflite.reader import TFLiteModel, read_model
from pymlgo.policy.tflite.writer import write_model
from pymlgo.tensor_spec import TensorSpec

MODEL_FILE = "model.tflite"
OUTPUT_SPEC_FILE = "output_spec.json"
FEED_PREFIX = "action_"
FETCH_NAME = "StatefulPartitionedCall"
OUTPUT_TYPES = ("float", "int32_t", "int64_t")

PROBLEM_OF_DECISION = {"inlining_decision": "inlining", "index_to_evict": "eviction", "priority": "priority"}
TRAINING_INPUTS: Mapping[str, DefaultValue] = {"discount": 0.0, "reward": 0.0, "step_type": 0}
"""Inputs that upstream's training loop feeds and no compiler does; LLVM leaves them 0."""


def write_development_files(graph: Graph, directory: Path) -> str:
    """Write both files; the SHA-256 of `model.tflite`.

    Raises:
        PolicyError: the graph has no TFLite form (a large tree ensemble, an output of another type).
    """
    simple = lowered(graph)
    specs = output_specs(simple)
    model = write_model(
        simple,
        [f"{FEED_PREFIX}{spec.name}:0" for spec in simple.inputs],
        [f"{spec.name}:{spec.port}" for _, spec in specs],
    )
    _check_input_order(read_model(model), MODEL_FILE)
    entries = [{"logging_name": name, "tensor_spec": spec.to_dict()} for name, spec in specs]
    atomic_file.write_bytes(directory / MODEL_FILE, model)
    atomic_file.write_text(directory / OUTPUT_SPEC_FILE, json.dumps(entries, indent=2) + "\n")
    return hashlib.sha256(model).hexdigest()


def output_specs(graph: Graph) -> list[tuple[str, TensorSpec]]:
    """For each output what a log calls it, and the tensor in the model, named as the TensorFlow converter does."""
    return [
        (spec.name, TensorSpec(FETCH_NAME, spec.type, spec.shape, port)) for port, spec in enumerate(graph.output_specs)
    ]


def read_development_files(directory: Path, *, prefix: str = FEED_PREFIX) -> Policy:
    """The policy that both files make; whoever wrote them.

    Features that no operator reads stay inputs, so that their types are still checked against a compiler's; the
    inputs of upstream's training loop are dropped where nothing reads them and else default to 0, as in LLVM.

    Args:
        directory: where the files are.
        prefix: what stands before a feature's name in the model (LLVM's flag -ml-inliner-trained-model-feed-prefix).

    Raises:
        PolicyError: a file is missing or damaged, breaks a rule of the loader, or uses an operator we do not have.
    """
    file = directory / MODEL_FILE
    model_bytes = read_limited(file)
    specs = read_output_specs(directory / OUTPUT_SPEC_FILE)
    try:
        model = read_model(model_bytes)
        _check_input_order(model, str(file))
        outputs = {logged: _output_tensor(model, spec) for logged, spec in specs}
        graph = model.graph(_feature_names(model, prefix), outputs)
    except PolicyError as error:
        raise PolicyError(f"{file}: {error}", hint=error.hint) from error
    decision = specs[0][0]
    known = {spec.name for spec in graph.inputs}
    return Policy(
        problem=PROBLEM_OF_DECISION[decision],
        graph=graph,
        advice=decision,
        defaults={name: value for name, value in TRAINING_INPUTS.items() if name in known},
        provenance={"imported": {"model_sha256": hashlib.sha256(model_bytes).hexdigest()}},
    )


def read_output_specs(file: Path) -> list[tuple[str, TensorSpec]]:
    """The entries of an output_spec.json: logging name and tensor.

    Raises:
        PolicyError: the file is missing, or an entry is not what LLVM demands; LLVM drops the whole file then, too.
    """
    try:
        entries = json.loads(read_limited(file, 1 << 20))
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"{file}: not JSON: {error}") from error
    if not isinstance(entries, list) or not entries:
        raise PolicyError(f"{file}: must be a list of at least one output")
    specs = [_output_entry(each, f"{file}: output {index}") for index, each in enumerate(entries)]
    names = [name for name, _ in specs]
    if len(set(names)) != len(names):
        raise PolicyError(f"{file}: a logging_name stands twice: {', '.join(names)}")
    if names[0] not in PROBLEM_OF_DECISION:
        raise PolicyError(
            f"{file}: the first output must be the decision, found {names[0]!r}",
            hint=f"LLVM's decisions are {', '.join(PROBLEM_OF_DECISION)}",
        )
    return specs


def _output_entry(entry: object, where: str) -> tuple[str, TensorSpec]:
    if not isinstance(entry, dict) or not isinstance(entry.get("logging_name"), str) or "tensor_spec" not in entry:
        raise PolicyError(f"{where}: must be an object with 'logging_name' and 'tensor_spec'")
    try:
        spec = TensorSpec.from_dict(entry["tensor_spec"])
    except SpecError as error:
        raise PolicyError(f"{where}: {error}", hint=error.hint) from error
    if spec.type not in OUTPUT_TYPES:
        raise PolicyError(f"{where}: {spec.type} is none of {', '.join(OUTPUT_TYPES)}, which LLVM can log")
    return entry["logging_name"], spec


def _check_input_order(model: TFLiteModel, where: str) -> None:
    """LLVM takes `tensor(i)` for the i-th input, so the inputs must be tensors 0…N-1 in order."""
    if model.inputs != tuple(range(len(model.inputs))):
        raise PolicyError(
            f"{where}: the inputs are tensors {list(model.inputs[:8])}…, expected 0…{len(model.inputs) - 1} in order",
            hint="LLVM's development mode would bind features to the wrong tensors; convert the model again",
        )


def _feature_names(model: TFLiteModel, prefix: str) -> dict[int, str]:
    names: dict[int, str] = {}
    read = {index for operator in model.operators for index in operator.inputs}
    for index in model.inputs:
        tensor = model.tensors[index].name
        if not (tensor.startswith(prefix) and tensor.endswith(":0")):
            raise PolicyError(
                f"input {tensor[:80]!r} is not called '{prefix}<feature>:0'",
                hint="the prefix may be another one: LLVM's flag is -ml-inliner-trained-model-feed-prefix",
            )
        name = tensor.removeprefix(prefix).removesuffix(":0")
        if name not in TRAINING_INPUTS or index in read:
            names[index] = name
    return names


def _output_tensor(model: TFLiteModel, spec: TensorSpec) -> int:
    wanted = f"{spec.name}:{spec.port}"
    for index in model.outputs:
        tensor = model.tensors[index]
        if tensor.name != wanted:
            continue
        if (tensor.type.type, tensor.type.shape) != (spec.type, spec.shape):
            raise PolicyError(
                f"output {wanted!r} is {tensor.type}, {OUTPUT_SPEC_FILE} says {spec.type}{list(spec.shape)}"
            )
        return index
    names = ", ".join(model.tensors[index].name for index in model.outputs)
    raise PolicyError(f"{OUTPUT_SPEC_FILE} names the output {wanted!r}; the model has {names or 'none'}")
