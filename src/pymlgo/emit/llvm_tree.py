"""Policies for people who build LLVM themselves: the files that its CMake takes, and the lines to say.

Source: llvm/CMakeLists.txt and cmake/modules/TensorFlowCompile.cmake (LLVM 22) for release mode; the MLGO document for
the options; llvm/Analysis/EmitCModelRunner.h (LLVM's main branch, 2026) for EmitC.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pymlgo.emit.artefact import Artefact, artefact_of, release_header_text, source_text
from pymlgo.emit.compiled import built, write_artefact
from pymlgo.emit.cxx import find_compiler, portable_isa
from pymlgo.errors import PolicyError
from pymlgo.policy.policy import Policy
from pymlgo.tensor_spec import TensorSpec

STUB_FOLDER = "tensorflow-stub"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A place that LLVM 22 has for a compiled-in model.

    `path_variable` is the CMake variable that asks for TensorFlow's compiler unless it is `none`; the name of the EmitC
    class is ours.
    """

    class_name: str
    emitc_class_name: str
    decision: TensorSpec
    path_variable: str
    release_options: tuple[str, ...]
    development_options: tuple[str, ...]


SLOTS: Mapping[str, Slot] = {
    "inlining": Slot(
        class_name="InlinerSizeModel",
        emitc_class_name="InlinerSizeEmitCModel",
        decision=TensorSpec("inlining_decision", "int64_t", (1,)),
        path_variable="LLVM_INLINER_MODEL_PATH",
        release_options=("-enable-ml-inliner=release",),
        development_options=(
            "-enable-ml-inliner=development",
            "-ml-inliner-model-under-training={model}",
            "-training-log={log}",
        ),
    ),
    "eviction": Slot(
        class_name="RegAllocEvictModel",
        emitc_class_name="RegAllocEvictEmitCModel",
        decision=TensorSpec("index_to_evict", "int64_t", (1,)),
        path_variable="LLVM_RAEVICT_MODEL_PATH",
        release_options=("-regalloc-enable-advisor=release",),
        development_options=(
            "-regalloc-enable-advisor=development",
            "-regalloc-model={model}",
            "-regalloc-training-log={log}",
        ),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseModel:
    """What `export_llvm_release` has written, and how a tree takes it.

    Attributes:
        class_name: the class in `header`.
        header: for LLVM_OVERRIDE_MODEL_HEADER_<NAME>.
        object: for LLVM_OVERRIDE_MODEL_OBJECT_<NAME>.
        stub: for TENSORFLOW_AOT_PATH, where the tree has no TensorFlow.
        isa: the -march that the object was compiled for.
        models: the policies, by the names that the model selector takes.
        cmake: the definitions for LLVM's CMake.
        clang: the options of the clang that is built.
    """

    class_name: str
    header: Path
    object: Path
    stub: Path
    isa: str
    models: tuple[str, ...]
    cmake: tuple[str, ...]
    clang: tuple[str, ...]


def export_llvm_release(
    policies: Mapping[str, Policy],
    output: Path,
    *,
    cxx: str | Path | None = None,
    march: str | None = None,
) -> ReleaseModel:
    """Write the header and object of LLVM's release class into the folder `output`, with the stub that a tree wants.

    Models of both problems may go to one folder, one after the other; `cmake` then names both.

    Args:
        policies: one policy, or several of one problem by the names that the model selector takes.
        output: the folder.
        cxx: the compiler; by default $CXX, g++ or clang++.
        march: by default the baseline of this architecture, as upstream's objects have it.

    Raises:
        PolicyError: LLVM compiles in no model of this problem or decision, or the folder cannot be written.
        ToolchainError: there is no compiler, or it failed.
    """
    compiler = find_compiler(cxx)
    isa = portable_isa() if march is None else march
    slot, artefact = _fitting(policies)
    name = slot.class_name
    data = built(source_text(artefact, "release", class_name=name), compiler, isa=isa, shared=False)
    output = output.absolute()
    write_artefact(output / f"{name}.h", release_header_text(artefact, name).encode())
    write_artefact(output / f"{name}.o", data)
    _write_stub(output / STUB_FOLDER)
    selector = ("-ml-inliner-model-selector=" + artefact.models[0].name,) if artefact.has_selector else ()
    return ReleaseModel(
        class_name=name,
        header=output / f"{name}.h",
        object=output / f"{name}.o",
        stub=output / STUB_FOLDER,
        isa=isa,
        models=tuple(model.name for model in artefact.models),
        cmake=_cmake_definitions(output),
        clang=tuple(part for option in (*slot.release_options, *selector) for part in ("-mllvm", option)),
    )


def export_emitc(policy: Policy, output: Path, *, class_name: str | None = None) -> Path:
    """Write the header with the class that LLVM's coming EmitCModelRunner takes; its path in the folder `output`.

    Raises:
        PolicyError: the class name is no C++ identifier, or there is none for the problem, or the folder cannot be
            written.
    """
    if class_name is None:
        class_name = _slot_of(policy.problem).emitc_class_name
    if not re.fullmatch(r"[A-Za-z_]\w*", class_name, re.ASCII):
        raise PolicyError(f"{class_name!r} is no name for a C++ class")
    if policy.graph.decision.element_count != 1:
        raise PolicyError(f"the decision {policy.graph.decision.to_json()} is no scalar, which operator() must return")
    path = output.absolute() / f"{class_name}.h"
    text = source_text(artefact_of(class_name, {class_name: policy}), "emitc", class_name=class_name)
    write_artefact(path, text.encode())
    return path


def development_options(problem: str, model: Path, log: Path) -> tuple[str, ...]:
    """The options of a clang built with TensorFlow Lite (development mode) that load `model` and write `log`.

    Raises:
        PolicyError: development mode does not know the problem.
    """
    options = _slot_of(problem).development_options
    return tuple(part for each in options for part in ("-mllvm", each.format(model=model.absolute(), log=log)))


def shell_line(program: str, arguments: tuple[str, ...]) -> str:
    """A command for a shell, an argument of `arguments` on each line."""
    return " \\\n    ".join([program, *(shlex.quote(each) for each in arguments)])


def _slot_of(problem: str) -> Slot:
    slot = SLOTS.get(problem)
    if slot is None:
        raise PolicyError(
            f"LLVM has no place for a compiled-in model of {problem!r}, only for {' and '.join(SLOTS)}",
            hint="`mlgo policy compile` makes a shared object, `mlgo deploy` puts it into a stock clang",
        )
    return slot


def _fitting(policies: Mapping[str, Policy]) -> tuple[Slot, Artefact]:
    first = next(iter(policies.values()), None)
    if first is None:
        raise PolicyError("nothing to export: no policy was given")
    slot = _slot_of(first.problem)
    if first.graph.decision != slot.decision:
        raise PolicyError(
            f"LLVM reads {slot.decision.to_json()} from {slot.class_name}, "
            f"the policy decides {first.graph.decision.to_json()}"
        )
    artefact = artefact_of(slot.class_name, policies)
    if artefact.has_selector and first.problem != "inlining":
        raise PolicyError("LLVM can select among several models for inlining only", hint="export one policy")
    return slot, artefact


def _write_stub(folder: Path) -> None:
    templates = resources.files("pymlgo.emit") / "templates" / "tf_xla_runtime"
    for name in ("CMakeLists.txt", "empty.cpp"):
        write_artefact(folder / "xla_aot_runtime_src" / name, (templates / name).read_bytes())


def _cmake_definitions(folder: Path) -> tuple[str, ...]:
    """For every model that is in the folder, and `none` for the other, which would else be looked for."""
    definitions = [f"-DTENSORFLOW_AOT_PATH={folder / STUB_FOLDER}"]
    for slot in SLOTS.values():
        header, made = folder / f"{slot.class_name}.h", folder / f"{slot.class_name}.o"
        if header.exists() and made.exists():
            upper = slot.class_name.upper()
            definitions.append(f"-DLLVM_OVERRIDE_MODEL_HEADER_{upper}={header}")
            definitions.append(f"-DLLVM_OVERRIDE_MODEL_OBJECT_{upper}={made}")
        else:
            definitions.append(f"-D{slot.path_variable}=none")
    return tuple(definitions)
