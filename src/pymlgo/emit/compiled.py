"""`compile_policy`: a policy becomes a shared object with the C interface of policy_abi.h."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pymlgo.atomic_file import write_bytes
from pymlgo.emit.artefact import Artefact, artefact_of, source_text
from pymlgo.emit.cxx import Compiler, find_compiler, usual_isa
from pymlgo.errors import PolicyError
from pymlgo.policy.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledPolicy:
    """A shared object, and how it came to be; sizes in bytes, times in wall seconds."""

    path: Path
    name: str
    problem: str
    models: tuple[str, ...]
    isa: str
    compiler: Path
    source_bytes: int
    object_bytes: int
    emit_s: float
    compile_s: float


def emit_cpp(policy: Policy, *, name: str = "policy", isa: str = "") -> str:
    """The C++ of `compile_policy`, one file without dependencies; equal policies give equal text."""
    return source_text(artefact_of(name, {name: policy}), "c_abi", isa=isa)


def compile_policy(
    policy: Policy,
    output: Path,
    *,
    name: str | None = None,
    cxx: str | Path | None = None,
    march: str | None = None,
    keep_source: Path | None = None,
) -> CompiledPolicy:
    """Compile a policy to the shared object `output`.

    Args:
        policy: what to compile.
        output: the file, which appears whole or not at all.
        name: what `mlgo_policy_name` says; by default the file's stem.
        cxx: the compiler; by default $CXX, g++ or clang++.
        march: the instructions to compile for, as GCC's -march; by default x86-64-v3 where this CPU has it, else the
            baseline. An object that finds itself on a lesser CPU makes no instance.
        keep_source: where to leave the C++ too.

    Raises:
        PolicyError: the policy is too large to be compiled, or a file cannot be written.
        ToolchainError: there is no compiler, or it failed.
    """
    name = name or output.stem
    return compile_policies({name: policy}, output, name=name, cxx=cxx, march=march, keep_source=keep_source)


def compile_policies(
    policies: Mapping[str, Policy],
    output: Path,
    *,
    name: str,
    cxx: str | Path | None = None,
    march: str | None = None,
    keep_source: Path | None = None,
) -> CompiledPolicy:
    """Compile several policies to one object; the input `model_selector` picks one by the MD5 of its name.

    Raises:
        PolicyError: as `compile_policy`, or the policies do not fit together.
        ToolchainError: as `compile_policy`.
    """
    compiler = find_compiler(cxx)
    isa = usual_isa() if march is None else march
    start = time.perf_counter()
    artefact = artefact_of(name, policies)
    text = source_text(artefact, "c_abi", isa=isa)
    emitted = time.perf_counter()
    data = built(text, compiler, isa=isa, shared=True)
    compiled = time.perf_counter()
    if keep_source is not None:
        write_artefact(keep_source, text.encode())
    write_artefact(output, data)
    return _described(artefact, output, compiler, isa, len(text), len(data), (emitted - start, compiled - emitted))


def built(text: str, compiler: Compiler, *, isa: str, shared: bool) -> bytes:
    """The shared or relocatable object of a source text.

    Raises:
        ToolchainError: the compiler failed.
    """
    with tempfile.TemporaryDirectory(prefix="mlgo-emit-") as folder:
        source, made = Path(folder, "policy.cpp"), Path(folder, "policy.out")
        source.write_text(text)
        compiler.compile(["-shared" if shared else "-c", source, "-o", made], isa=isa)
        return made.read_bytes()


def write_artefact(path: Path, data: bytes) -> None:
    """`path` holds `data`, or what it held before.

    Raises:
        PolicyError: it cannot be written.
    """
    try:
        write_bytes(path, data)
    except OSError as error:
        raise PolicyError(f"{path} cannot be written: {error.strerror}") from error


def _described(
    artefact: Artefact,
    output: Path,
    compiler: Compiler,
    isa: str,
    source_bytes: int,
    object_bytes: int,
    seconds: tuple[float, float],
) -> CompiledPolicy:
    return CompiledPolicy(
        path=output,
        name=artefact.name,
        problem=artefact.problem,
        models=tuple(model.name for model in artefact.models),
        isa=isa,
        compiler=compiler.path,
        source_bytes=source_bytes,
        object_bytes=object_bytes,
        emit_s=seconds[0],
        compile_s=seconds[1],
    )
