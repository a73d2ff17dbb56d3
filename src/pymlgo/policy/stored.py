"""policy.json and the weights beside it: the stored form of a policy, and a parser that trusts nothing.

| member | holds |
|---|---|
| `schema` | `pymlgo/policy-1` |
| `problem`, `advice` | which decision; the tensor that answers, as LLVM writes a spec |
| `features` | the inputs as specs, in the graph's order |
| `defaults` | for features that a compiler may lack: the value to take |
| `graph` | `constants` (type, shape, byte offset in the weights), `nodes`, `outputs`; normalisation is part of it |
| `weights` | `file`, `bytes`, `sha256`: the constants, row-major, little-endian, each at a multiple of 64 bytes |
| `provenance` | what training recorded: LLVM versions seen, corpus hash, metrics, seed, … |
| `tflite` | `file` and `sha256` of the TFLite form, or the `reason` why there is none |
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.errors import PolicyError, SpecError
from pymlgo.policy.graph import Graph, Node, Output
from pymlgo.policy.policy import DefaultValue, Policy
from pymlgo.policy.values import LARGEST_GRAPH_ELEMENTS, Attribute, ValueType
from pymlgo.tensor_spec import TensorSpec

SCHEMA = "pymlgo/policy-1"
ALIGNMENT = 64
LARGEST_TEXT_BYTES = 1 << 24


def to_stored(policy: Policy) -> tuple[dict[str, object], bytes]:
    """The members of policy.json but `weights` and `tflite`, and the bytes of the weights.

    Raises:
        PolicyError: the provenance is no JSON.
    """
    blob = bytearray()
    offsets: dict[str, int] = {}
    for name, array in policy.graph.constants.items():
        blob.extend(bytes(-len(blob) % ALIGNMENT))
        offsets[name] = len(blob)
        blob.extend(_little_endian(array).tobytes())
    structure: dict[str, Any] = policy.graph.structure()
    features = structure.pop("inputs")
    for name, constant in structure["constants"].items():
        constant["offset"] = offsets[name]
    stored: dict[str, object] = {
        "schema": SCHEMA,
        "problem": policy.problem,
        "advice": policy.graph.decision.to_dict(),
        "features": features,
        "defaults": dict(policy.defaults),
        "provenance": dict(policy.provenance),
        "graph": structure,
    }
    return stored, bytes(blob)


def to_text(stored: Mapping[str, object]) -> str:
    """The text of policy.json: one line a feature, node and constant, so that two policies compare well.

    Raises:
        PolicyError: it holds what JSON cannot (NaN, say).
    """
    try:
        return _indented(stored, "") + "\n"
    except (TypeError, ValueError) as error:
        raise PolicyError(f"the policy holds what JSON cannot say: {error}") from error


def _indented(value: object, indent: str) -> str:
    flat = json.dumps(value, allow_nan=False, ensure_ascii=False)
    if len(indent) + len(flat) <= 110 or not value:
        return flat
    deeper = indent + "  "
    match value:
        case Mapping():
            members = (f"{deeper}{json.dumps(str(key))}: {_indented(each, deeper)}" for key, each in value.items())
            return "{\n" + ",\n".join(members) + f"\n{indent}}}"
        case list() | tuple() if any(isinstance(each, Mapping) for each in value):
            return "[\n" + ",\n".join(deeper + _indented(each, deeper) for each in value) + f"\n{indent}]"
        case _:
            return flat


def weights_name(stored: Mapping[str, object], where: str) -> str:
    """The file name of the weights: a bare name, never a path.

    Raises:
        PolicyError: it is missing or would leave the directory.
    """
    name: str = _member(_member(stored, "weights", dict, where), "file", str, f"{where}: weights")
    if not name or "/" in name or "\\" in name or name.startswith("."):
        raise PolicyError(f"{where}: weights.file must be a plain file name, found {name[:80]!r}")
    return name


def from_text(text: bytes, where: str) -> dict[str, Any]:
    """The members of a policy.json.

    Raises:
        PolicyError: it is no JSON object, has a member twice, or is of another schema.
    """
    try:
        stored = json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"{where}: not JSON: {error}") from error
    if not isinstance(stored, dict):
        raise PolicyError(f"{where}: must be a JSON object")
    schema = _member(stored, "schema", str, where)
    if schema != SCHEMA:
        hint = "this version of pymlgo reads pymlgo/policy-1; a newer one may have written it"
        raise PolicyError(f"{where}: schema is {schema!r}, expected {SCHEMA!r}", hint=hint)
    return stored


def from_stored(stored: Mapping[str, Any], weights: bytes, where: str) -> Policy:
    """The policy that policy.json and the weights' bytes describe.

    Raises:
        PolicyError: anything is missing, of the wrong type, or does not fit together.
    """
    described = _member(stored, "weights", dict, where)
    found = hashlib.sha256(weights).hexdigest()
    if found != _member(described, "sha256", str, f"{where}: weights"):
        raise PolicyError(
            f"{where}: the weights have sha256 {found}, expected {described['sha256']}",
            hint="the file is damaged or of another policy; copy the directory again",
        )
    graph = _graph(stored, weights, where)
    advice = _member(stored, "advice", dict, where)
    if _spec(advice, f"{where}: advice") != graph.decision:
        raise PolicyError(f"{where}: advice is {advice}, but the graph makes {graph.decision.to_json()}")
    try:
        return Policy(
            problem=_member(stored, "problem", str, where),
            graph=graph,
            advice=graph.decision.name,
            defaults={
                name: _default(name, each, where) for name, each in _member(stored, "defaults", dict, where).items()
            },
            provenance=_member(stored, "provenance", dict, where),
        )
    except PolicyError as error:
        raise PolicyError(f"{where}: {error}", hint=error.hint) from error


def _graph(stored: Mapping[str, Any], weights: bytes, where: str) -> Graph:
    described = _member(stored, "graph", dict, where)
    inside = f"{where}: graph"
    constants = {
        name: _constant(name, each, weights, inside)
        for name, each in _member(described, "constants", dict, inside).items()
    }
    features = _member(stored, "features", list, where)
    try:
        return Graph(
            inputs=tuple(_spec(each, f"{where}: features") for each in features),
            nodes=tuple(_node(each, inside) for each in _member(described, "nodes", list, inside)),
            outputs=tuple(_output(each, inside) for each in _member(described, "outputs", list, inside)),
            constants=constants,
        )
    except PolicyError as error:
        raise PolicyError(f"{inside}: {error}", hint=error.hint) from error


def _constant(name: str, described: object, weights: bytes, where: str) -> AnyArray:
    inside = f"{where}: constant {name!r}"
    kind = _member(described, "type", str, inside)
    shape = _integers(_member(described, "shape", list, inside), f"{inside}: shape")
    offset = _member(described, "offset", int, inside)
    try:
        value = ValueType(kind, shape)
    except PolicyError as error:
        raise PolicyError(f"{inside}: {error}", hint=error.hint) from error
    end = offset + value.element_count * value.dtype.itemsize
    if offset < 0 or end > len(weights):
        raise PolicyError(f"{inside}: bytes {offset} to {end} lie outside the weights ({len(weights)} bytes)")
    stored = np.frombuffer(weights, value.dtype.newbyteorder("<"), value.element_count, offset)
    return stored.astype(value.dtype).reshape(shape)


def _node(described: object, where: str) -> Node:
    inside = f"{where}: node"
    inputs = _member(described, "inputs", list, inside)
    if not all(isinstance(each, str) for each in inputs):
        raise PolicyError(f"{inside}: inputs must be names")
    attributes = _member(described, "attributes", dict, inside)
    return Node(
        op=_member(described, "op", str, inside),
        inputs=tuple(inputs),
        output=_member(described, "output", str, inside),
        attributes={key: _attribute(each, f"{inside}: attribute {key!r}") for key, each in attributes.items()},
    )


def _output(described: object, where: str) -> Output:
    inside = f"{where}: output"
    return Output(name=_member(described, "name", str, inside), value=_member(described, "value", str, inside))


def _spec(described: object, where: str) -> TensorSpec:
    try:
        return TensorSpec.from_dict(described)
    except SpecError as error:
        raise PolicyError(f"{where}: {error}", hint=error.hint) from error


def _attribute(value: object, where: str) -> Attribute:
    if isinstance(value, list):
        return _integers(value, where)
    if isinstance(value, int | float | str | bool):
        return value
    raise PolicyError(f"{where} must be a number, a string, a truth value or a list of integers")


def _default(name: str, value: object, where: str) -> DefaultValue:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if isinstance(value, list) and all(isinstance(each, int | float) and not isinstance(each, bool) for each in value):
        return value
    raise PolicyError(f"{where}: the default of {name!r} must be a number or a list of numbers")


def _integers(values: list[Any], where: str) -> tuple[int, ...]:
    if len(values) > LARGEST_GRAPH_ELEMENTS or not all(type(each) is int for each in values):
        raise PolicyError(f"{where} must be a list of integers")
    return tuple(values)


def _member(value: object, key: str, kind: type[Any], where: str) -> Any:
    if not isinstance(value, Mapping):
        raise PolicyError(f"{where} must be a JSON object")
    if key not in value:
        raise PolicyError(f"{where}: {key!r} is missing")
    if type(value[key]) is not kind:
        raise PolicyError(f"{where}: {key!r} must be {kind.__name__}, found {type(value[key]).__name__}")
    return value[key]


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"{twice!r} stands twice")
    return made


def _refused(text: str) -> object:
    raise ValueError(f"{text} is no JSON")


def _little_endian(array: AnyArray) -> AnyArray:
    return array.astype(array.dtype.newbyteorder("<"), copy=False)
