"""One or several policies as C++ text: what the templates are filled with.

Policies of one artefact share inputs and outputs by name. Where there are several, the input `model_selector` picks one
by the MD5 of its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

import jinja2
import numpy as np

from pymlgo.emit import literals
from pymlgo.emit.plan import ALIGNMENT_BYTES, Plan, aligned_bytes, planned
from pymlgo.emit.statements import Body
from pymlgo.emit.tables import Tables, Uses
from pymlgo.errors import PolicyError
from pymlgo.policy import elementary
from pymlgo.policy.compiled_library import MODEL_SELECTOR, selector_words
from pymlgo.policy.policy import Policy
from pymlgo.tensor_spec import TensorSpec

Face: TypeAlias = Literal["c_abi", "release", "emitc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """An input or output of an artefact; `offset` is its place among the others in bytes, `default` C++ or ""."""

    index: int
    name: str
    type: str
    shape: tuple[int, ...]
    offset: int
    byte_size: int
    default: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One policy of an artefact, and its C++."""

    name: str
    policy: Policy
    plan: Plan
    tables: str
    body: str
    uses: Uses
    constant_bytes: int


def model_of(name: str, policy: Policy) -> Model:
    """The C++ of a policy.

    Raises:
        PolicyError: its constants are too many for source text.
    """
    plan = planned(policy.graph)
    tables = Tables(plan.program)
    body = Body(plan, tables).text()
    return Model(
        name=name,
        policy=policy,
        plan=plan,
        tables=tables.text(),
        body=body,
        uses=tables.uses,
        constant_bytes=tables.constant_bytes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefact:
    """Policies that are compiled together."""

    name: str
    problem: str
    models: tuple[Model, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    @property
    def has_selector(self) -> bool:
        """Whether the input `model_selector` picks a model."""
        return len(self.models) > 1


def artefact_of(name: str, policies: Mapping[str, Policy]) -> Artefact:
    """The artefact `name` of policies by the names that select them.

    Raises:
        PolicyError: there is none, or they decide different problems or differ about a tensor of one name.
    """
    if not policies:
        raise PolicyError("nothing to compile: no policy was given")
    problems = {policy.problem: name for name, policy in policies.items()}
    if len(problems) > 1:
        said = ", ".join(f"{each!r} decides {problem}" for problem, each in problems.items())
        raise PolicyError(f"policies of one artefact must decide the same problem: {said}")
    for each in (name, *policies):
        if not each or not each.isprintable():
            raise PolicyError(
                f"{each!r} is no name for a policy", hint="use printable characters; --name gives another"
            )
    models = tuple(model_of(each, policy) for each, policy in policies.items())
    first = next(iter(policies.values()))
    for each, policy in policies.items():
        if policy.graph.decision != first.graph.decision:
            raise PolicyError(f"policy {each!r} decides {policy.graph.decision}, the first {first.graph.decision}")
    specs = _united([(each, policy.graph.inputs) for each, policy in policies.items()])
    if len(models) > 1:
        if any(spec.name == MODEL_SELECTOR.name for spec in specs):
            raise PolicyError(
                f"a policy has an input {MODEL_SELECTOR.name!r}, which the artefact needs to pick one of them"
            )
        specs.append(MODEL_SELECTOR)
    outputs = _united([(each, policy.graph.output_specs) for each, policy in policies.items()])
    return Artefact(
        name=name,
        problem=first.problem,
        models=models,
        inputs=_placed(specs, _common_defaults(policies)),
        outputs=_placed(outputs, {}),
    )


def source_text(artefact: Artefact, face: Face, *, class_name: str = "", isa: str = "") -> str:
    """The C++ of an artefact.

    Args:
        artefact: what to write.
        face: `c_abi` (one file with the functions of policy_abi.h), `release` (the object behind LLVM's release class)
            or `emitc` (a header with the class for EmitCModelRunner).
        class_name: of `release` and `emitc`.
        isa: what `mlgo_isa` says.
    """
    if face == "emitc" and artefact.has_selector:
        raise PolicyError("the EmitC class holds one policy", hint="export each on its own; LLVM picks by a flag")
    template = {"c_abi": "c_abi.cpp.jinja", "release": "release.cpp.jinja", "emitc": "emitc.h.jinja"}[face]
    return _rendered(template, artefact, class_name=class_name, isa=isa, compiled_by_others=face == "emitc")


def release_header_text(artefact: Artefact, class_name: str) -> str:
    """The header with LLVM's release class."""
    return _rendered("release.h.jinja", artefact, class_name=class_name)


def abi_header_text() -> str:
    """The C interface: the header `policy_abi.h`."""
    loader = _templates().loader
    if loader is None:
        raise AssertionError("the environment was made with a loader")
    return loader.get_source(_templates(), "policy_abi.h")[0]


# --- tensors ------------------------------------------------------------------------------------------------


def _united(specs_of: Sequence[tuple[str, Sequence[TensorSpec]]]) -> list[TensorSpec]:
    """Every tensor once, in the order of the first mention."""
    found: dict[str, tuple[str, TensorSpec]] = {}
    for policy, specs in specs_of:
        for spec in specs:
            known_by, known = found.setdefault(spec.name, (policy, spec))
            if (known.type, known.shape) != (spec.type, spec.shape):
                raise PolicyError(
                    f"tensor {spec.name!r} is {known.type} {list(known.shape)} for policy {known_by!r}, "
                    f"and {spec.type} {list(spec.shape)} for {policy!r}"
                )
    return [spec for _, spec in found.values()]


def _common_defaults(policies: Mapping[str, Policy]) -> dict[str, str]:
    """Defaults by input, as C++; an input that has one here and none, or another, there has none."""
    found: dict[str, set[str]] = {}
    for policy in policies.values():
        defaults = policy.default_inputs()
        for spec in policy.graph.inputs:
            value = defaults.get(spec.name)
            text = "" if value is None else literals.literals(np.asarray(value), spec.type)
            found.setdefault(spec.name, set()).add(text)
    return {name: texts.pop() for name, texts in found.items() if len(texts) == 1}


def _placed(specs: Sequence[TensorSpec], defaults: Mapping[str, str]) -> tuple[Tensor, ...]:
    placed, offset = [], 0
    for index, spec in enumerate(specs):
        placed.append(
            Tensor(
                index=index,
                name=spec.name,
                type=spec.type,
                shape=spec.shape,
                offset=offset,
                byte_size=spec.byte_size,
                default=defaults.get(spec.name, ""),
            )
        )
        offset += aligned_bytes(spec.byte_size)
    return tuple(placed)


def _room(tensors: Sequence[Tensor]) -> int:
    return max(sum(aligned_bytes(each.byte_size) for each in tensors), ALIGNMENT_BYTES)


# --- templates ----------------------------------------------------------------------------------------------


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("pymlgo.emit"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _rendered(
    template: str, artefact: Artefact, *, class_name: str, isa: str = "", compiled_by_others: bool = False
) -> str:
    uses = Uses()
    for model in artefact.models:
        uses = uses | model.uses
    workspace_bytes = max(model.plan.workspace_bytes for model in artefact.models)
    inputs, outputs = artefact.inputs, artefact.outputs
    known = ", ".join(model.name for model in artefact.models)
    return (
        _templates()
        .get_template(template)
        .render(
            title=f"{artefact.name}: {artefact.problem}",
            name=artefact.name,
            quoted_name=literals.quoted(artefact.name),
            quoted_problem=literals.quoted(artefact.problem),
            quoted_isa=literals.quoted(isa),
            namespace=f"mlgo_{class_name or 'policy'}",
            class_name=class_name,
            models=[_model_context(model, artefact) for model in artefact.models],
            inputs=inputs,
            outputs=outputs,
            input_bytes=_room(inputs),
            output_bytes=_room(outputs),
            workspace_bytes=workspace_bytes,
            instance_bytes=_room(inputs) + _room(outputs) + workspace_bytes + ALIGNMENT_BYTES,
            selector=inputs[-1] if artefact.has_selector else None,
            selector_error=literals.quoted(f"model_selector names no policy of this artefact, which has: {known}"),
            uses=uses,
            elementary=_elementary_literals(),
            abi_header=abi_header_text(),
            face_compiled_by_others=compiled_by_others,
        )
    )


def _model_context(model: Model, artefact: Artefact) -> dict[str, object]:
    graph = model.policy.graph
    inputs = {tensor.name: tensor for tensor in artefact.inputs}
    outputs = {tensor.name: tensor for tensor in artefact.outputs}
    high, low = selector_words(model.name)
    read = [spec.name for spec in graph.inputs if f"in_{spec.name}" in model.plan.read_buffers]
    return {
        "name": model.name,
        "quoted_name": literals.quoted(model.name),
        "summary": f"policy {model.name!r} ({model.constant_bytes} bytes of constants)",
        "fingerprint": graph.fingerprint(),
        "selector_high": literals.literal(high, "uint64_t"),
        "selector_low": literals.literal(low, "uint64_t"),
        "tables": model.tables,
        "body": model.body,
        "inputs": [inputs[name] for name in read],
        "input_list": f"{len(read)} of its {len(graph.inputs)} inputs are read.",
        "outputs": [outputs[spec.name] for spec in graph.output_specs],
        "buffers": model.plan.buffers,
    }


@cache
def _elementary_literals() -> dict[str, str]:
    """The constants of `policy.elementary` as C++."""
    found: dict[str, str] = {}
    for name, value in vars(elementary).items():
        if isinstance(value, np.float32):
            found[name] = literals.literal(value, "float")
        elif isinstance(value, tuple):
            found[name] = ", ".join(literals.literal(each, "float") for each in value)
    return found
