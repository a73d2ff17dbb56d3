"""Compiled policies as a whole: the C interface, the same bits everywhere, determinism, bad input."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from compiled_graphs import (
    assert_same_bits,
    check_graph,
    eviction_observations,
    inliner_observations,
    policy_of,
    random_inputs,
    run_batch,
    small_eviction,
    small_inliner,
)

from conftest import ROOT, require_tool
from pymlgo.emit import abi_header_text, artefact_of, compile_policies, compile_policy, cxx, emit_cpp, source_text
from pymlgo.emit.batch import CompiledBatch
from pymlgo.emit.cxx import Compiler, find_compiler, usual_isa
from pymlgo.emit.plan import planned
from pymlgo.emit.timing import time_policy
from pymlgo.errors import PolicyError, ToolchainError
from pymlgo.policy.builder import GraphBuilder
from pymlgo.policy.compiled_library import selector_words
from pymlgo.policy.interpreter import evaluate_batch
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import (
    InliningRule,
    Scaling,
    eviction_policy,
    inlining_policy,
    linear,
    priority_policy,
    random_layers,
    threshold_policy,
)
from pymlgo.policy.trees import Trees
from pymlgo.runner.release import CompiledModel, ReleaseModeModelRunner
from pymlgo.tensor_spec import TensorSpec

COUNT = 200


def has_isa(isa: str) -> bool:
    flags = Path("/proc/cpuinfo").read_text().partition("flags")[2].splitlines()[0].split()
    return isa == "x86-64" or usual_isa() == isa or (isa == "x86-64-v4" and "avx512vl" in flags)


# --- the same bits ------------------------------------------------------------------------------------------


def same_bits_everywhere(tmp_path: Path, combinations: list[tuple[str, str, str]]) -> None:
    rng = np.random.default_rng(1)
    inliner, eviction = small_inliner(rng), small_eviction(rng)
    for policy, inputs in (
        (inliner, inliner_observations(inliner, rng, COUNT)),
        (eviction, eviction_observations(eviction, rng, COUNT)),
    ):
        expected = evaluate_batch(policy.graph, inputs)
        for index, (compiler, isa, level) in enumerate(combinations):
            library = tmp_path / f"{policy.problem}{index}.so"
            source = tmp_path / "policy.cpp"
            source.write_text(emit_cpp(policy))
            command = Compiler(path=require_tool(compiler)).command(["-shared", source, "-o", library], isa=isa)
            subprocess.run([level if each == "-O2" else each for each in command], check=True)
            if has_isa(isa):
                found = run_batch(CompiledModel(library), inputs, COUNT)
                for name, wanted in expected.items():
                    assert_same_bits(found[name], wanted, f"{policy.problem} {name} of {compiler} {isa} {level}")


def test_the_same_bits_from_two_compilers_for_two_cpus(tmp_path: Path) -> None:
    same_bits_everywhere(tmp_path, [("g++", "x86-64", "-O2"), ("clang++-22", "x86-64-v3", "-O3")])


@pytest.mark.full
def test_the_same_bits_from_every_compiler_level_and_cpu(tmp_path: Path) -> None:
    same_bits_everywhere(
        tmp_path,
        [
            (compiler, isa, level)
            for compiler in ("g++", "clang++-22")
            for isa in ("x86-64", "x86-64-v3", "x86-64-v4")
            for level in ("-O2", "-O3")
        ],
    )


def test_no_fused_multiply_add_even_where_others_compile_the_header(tmp_path: Path) -> None:
    policy = inlining_policy([TensorSpec("x", "float", (8,))], random_layers((8, 16, 2), np.random.default_rng(2)))
    header = source_text(artefact_of("p", {"p": policy}), "emitc", class_name="P")
    source = tmp_path / "p.cpp"
    source.write_text(f"{header}\nlong decide(P &p) {{ return p(); }}\n")
    for compiler in ("g++", "clang++-22"):
        command = [require_tool(compiler), "-std=c++17", "-O3", "-march=x86-64-v3", "-S", source, "-o", "-"]
        made = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "mulps" in made.stdout
        assert "vfmadd" not in made.stdout, compiler


def test_generated_code_compiles_without_a_warning(tmp_path: Path) -> None:
    source = tmp_path / "policy.cpp"
    source.write_text(emit_cpp(small_eviction(np.random.default_rng(3), registers=5)))
    for compiler in ("g++", "clang++-22"):
        command = [require_tool(compiler), "-std=c++17", "-Wall", "-Wextra", "-Werror", "-O1", "-fsyntax-only", source]
        subprocess.run(command, check=True)


def test_the_same_policy_gives_the_same_text() -> None:
    first, second = (emit_cpp(small_inliner(np.random.default_rng(4))) for _ in range(2))
    assert first == second
    assert emit_cpp(small_inliner(np.random.default_rng(5))) != first


def split(feature: int, threshold: float, low: float, high: float) -> dict[str, object]:
    children = {"left_child": {"leaf_value": low}, "right_child": {"leaf_value": high}}
    return {"split_feature": feature, "threshold": threshold, **children}


@pytest.mark.parametrize("shape", ["scaled", "trees", "evicting trees", "priority", "linear"])
def test_model_shapes_have_the_interpreters_bits(tmp_path: Path, shape: str) -> None:
    rng = np.random.default_rng(16)
    scalars = [TensorSpec(name, "int64_t", (1,)) for name in ("a", "b", "cost_estimate")]
    vectors = [TensorSpec("embedding", "float", (4,))]
    rows = [TensorSpec("mask", "int64_t", (1, 9)), *(TensorSpec(name, "float", (1, 9)) for name in "xyz")]
    trees = Trees.from_nested([split(0, 1.5, 0.25, -1.0), split(2, -3.0, 1.0, 0.125)])
    scaling = Scaling(mean=np.ones(7), deviation=np.full(7, 0.75), clip=5.0)
    policy = {
        "scaled": lambda: inlining_policy(
            [*scalars, *vectors],
            random_layers((7, 8, 8, 1), rng, activation="tanh"),
            scaling=scaling,
            rule=InliningRule(margin=0.125, default="cost_estimate"),
        ),
        "trees": lambda: inlining_policy(scalars, trees),
        "evicting trees": lambda: eviction_policy(rows, trees),
        "priority": lambda: priority_policy(scalars, random_layers((3, 5, 1), rng, activation="relu")),
        "linear": lambda: inlining_policy(scalars, linear(np.float32([0.5, -1.5, 0.25]), 0.75)),
    }[shape]()
    check_graph(policy.graph, random_inputs(policy.graph, rng, 100), tmp_path)


# --- masked rows --------------------------------------------------------------------------------------------


def scores_of(policy: Policy) -> tuple[int, ...]:
    return tuple(region.count for region in planned(policy.graph).regions)


def test_only_unmasked_rows_are_computed() -> None:
    assert scores_of(small_eviction(np.random.default_rng(6), registers=7)) == (7,)


def test_rows_are_all_computed_where_something_else_reads_them() -> None:
    make = GraphBuilder()
    rows = make.input(TensorSpec("rows", "float", (6, 4)))
    mask = make.input(TensorSpec("mask", "int64_t", (6,)))
    rng = np.random.default_rng(7)
    layer = rng.normal(size=(4, 1)).astype(np.float32)
    scores = make.dense(rows * 2, layer, np.zeros(1, np.float32)).reshape(6)
    masked = make.select(mask.equals(0), make.constant(np.float32(-1)), scores)
    make.output("best", masked.arg_max(axis=0).reshape(1))
    make.output("largest", make.apply("REDUCE_MAX", scores, axes=(0,), keep_dims=True))
    assert planned(make.build()).regions == ()


def test_square_shapes_do_not_pass_for_rows(tmp_path: Path) -> None:
    """A vector of as many columns as there are rows is no row of its own."""
    rng = np.random.default_rng(8)
    make = GraphBuilder()
    square = make.input(TensorSpec("square", "float", (5, 5)))
    vector = make.input(TensorSpec("vector", "float", (5,)))
    mask = make.input(TensorSpec("mask", "int64_t", (5,)))
    layer = rng.normal(size=(5, 5)).astype(np.float32)
    last = rng.normal(size=(5, 1)).astype(np.float32)
    columns = make.dense(vector * 3, layer, np.zeros(5, np.float32))  # [5] of one row
    hidden = make.dense(square + columns, layer, np.zeros(5, np.float32), activation="relu")
    packed = make.apply("PACK", hidden, hidden * columns, axis=2).reshape(5, 10)
    wide = rng.normal(size=(10, 1)).astype(np.float32)
    scores = make.dense(packed, wide, np.zeros(1, np.float32)) + make.dense(square, last, np.zeros(1, np.float32))
    masked = make.select(mask.equals(0), make.constant(np.float32(-9)), scores.reshape(5))
    make.output("best", masked.arg_max(axis=0).reshape(1))
    make.output("scores", masked)
    graph = make.build()
    assert [region.count for region in planned(graph).regions] == [5]
    inputs = {
        "square": rng.normal(size=(60, 5, 5)).astype(np.float32),
        "vector": rng.normal(size=(60, 5)).astype(np.float32),
        "mask": rng.integers(0, 2, (60, 5)),
    }
    check_graph(graph, inputs, tmp_path)


@pytest.mark.parametrize("registers", [1, 2, 37])
def test_any_number_of_registers(tmp_path: Path, registers: int) -> None:
    rng = np.random.default_rng(9)
    features = [TensorSpec(name, "float", (max(registers, 2),)) for name in ("a", "b")]
    features += [TensorSpec("progress", "float", (1,)), TensorSpec("mask", "int64_t", (max(registers, 2),))]
    policy = eviction_policy(features, random_layers((3, 7, 1), rng))
    check_graph(policy.graph, eviction_like(policy, rng), tmp_path)


def eviction_like(policy: Policy, rng: np.random.Generator) -> dict[str, np.ndarray]:
    made = {spec.name: rng.normal(size=(50, *spec.shape)).astype(spec.dtype) for spec in policy.graph.inputs}
    made["mask"] = rng.integers(0, 2, made["mask"].shape)
    return made


# --- the C interface ----------------------------------------------------------------------------------------


def test_the_advisor_reads_the_emitters_header() -> None:
    """The plugin's header is a line that includes the emitter's, so the two cannot part."""
    included = (ROOT / "native/advisor/policy_abi.h").read_text()
    assert '#include "../../src/pymlgo/emit/templates/policy_abi.h"' in included
    assert abi_header_text() == (ROOT / "src/pymlgo/emit/templates/policy_abi.h").read_text()


def test_the_interface_is_c(tmp_path: Path) -> None:
    (tmp_path / "user.c").write_text(f"{abi_header_text()}\nvoid (*run)(void *) = mlgo_run;\n")
    flags = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]
    subprocess.run([require_tool("gcc"), *flags, tmp_path / "user.c"], check=True)


def test_the_object_exports_the_interface_and_needs_libc_alone(tmp_path: Path) -> None:
    made = compile_policy(small_inliner(np.random.default_rng(10)), tmp_path / "p.so")
    lines = subprocess.run(["nm", "-D", made.path], capture_output=True, text=True, check=True).stdout.splitlines()
    defined = {line.split()[-1] for line in lines if line.split()[-2] == "T"}
    assert defined == set(re.findall(r"\b(mlgo_\w+)\(", abi_header_text()))
    needed = {line.split()[-1].partition("@")[0] for line in lines if line.split()[-2] == "U"}
    assert needed <= {"aligned_alloc", "free", "memcpy", "memset"}


def test_instances_are_independent_and_keep_their_inputs(tmp_path: Path) -> None:
    made = compile_policy(threshold_policy(threshold=5), tmp_path / "p.so")
    first, second = CompiledModel(made.path), CompiledModel(made.path)
    for model, cost in ((first, 3), (second, 30)):
        model.input_arrays[0][:] = cost
        assert model.input_arrays[0].ctypes.data % 64 == 0
        assert model.output_arrays[0].ctypes.data % 64 == 0
    for model in (first, second, first):
        model.run()
    assert (first.output_arrays[0][0], second.output_arrays[0][0]) == (1, 0)
    assert (first.input_arrays[0][0], second.input_arrays[0][0]) == (3, 30)


def test_defaults_are_in_the_object(tmp_path: Path) -> None:
    features = [TensorSpec("a", "int64_t", (1,)), TensorSpec("b", "float", (3,))]
    policy = inlining_policy(
        features, random_layers((4, 2), np.random.default_rng(11)), defaults={"b": (1.5, -2.0, 0.0)}
    )
    model = CompiledModel(compile_policy(policy, tmp_path / "p.so").path)
    assert model.input_arrays[1].tolist() == [1.5, -2.0, 0.0]
    assert [model.has_default(index) for index in range(3)] == [False, True, False]


def test_indices_outside_give_nothing(tmp_path: Path) -> None:
    library = CompiledModel(compile_policy(threshold_policy(), tmp_path / "p.so").path)._library
    for name in ("mlgo_input_name", "mlgo_output_type", "mlgo_input_shape", "mlgo_model_name", "mlgo_input_default"):
        assert not getattr(library, name)(99), name
    instance = ctypes.c_void_p(library.mlgo_create())
    assert library.mlgo_arg_data(instance, 1) is None
    assert library.mlgo_result_data(instance, 2**32 - 1) is None
    library.mlgo_destroy(instance)


def test_several_policies_in_one_object(tmp_path: Path) -> None:
    rng = np.random.default_rng(12)
    features = [TensorSpec("x", "float", (4,)), TensorSpec("cost_estimate", "int64_t", (1,))]
    policies = {
        "net": inlining_policy(features, random_layers((5, 8, 1), rng)),
        "plain": threshold_policy(threshold=10),
        'odd "name" \\': threshold_policy(threshold=-10),
    }
    made = compile_policies(policies, tmp_path / "p.so", name="several")
    assert made.models == tuple(policies)
    model = CompiledModel(made.path)
    assert [spec.name for spec in model.inputs] == ["x", "cost_estimate", "model_selector"]
    for name, policy in policies.items():
        runner = ReleaseModeModelRunner(features, "inlining_decision", made.path, model_selector=name)
        x, cost = rng.normal(size=4).astype(np.float32), rng.integers(-20, 20, 1)
        runner.get_tensor(0)[:], runner.get_tensor(1)[:] = x, cost
        wanted = evaluate_batch(policy.graph, {"x": x[np.newaxis], "cost_estimate": cost[np.newaxis]})
        assert runner.evaluate() == wanted["inlining_decision"][0, 0]
    model.input_arrays[2][:] = selector_words("no such policy")
    with pytest.raises(PolicyError, match="names no policy of this artefact, which has: net, plain, odd"):
        model.run()
    assert model.output_arrays[0][0] == 0


def test_policies_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(13)
    layers = random_layers((1, 2), rng)
    one, other = (inlining_policy([TensorSpec("x", kind, (1,))], layers) for kind in ("float", "int64_t"))
    with pytest.raises(PolicyError, match="tensor 'x' is float \\[1\\] for policy 'a', and int64_t \\[1\\] for 'b'"):
        compile_policies({"a": one, "b": other}, tmp_path / "p.so", name="p")
    with pytest.raises(PolicyError, match="must decide the same problem"):
        compile_policies({"a": one, "b": small_eviction(rng, registers=3)}, tmp_path / "p.so", name="p")
    with pytest.raises(PolicyError, match="no policy was given"):
        compile_policies({}, tmp_path / "p.so", name="p")
    with pytest.raises(PolicyError, match="is no name for a policy"):
        compile_policies({"a\nb": one}, tmp_path / "p.so", name="p")
    taken = inlining_policy([TensorSpec("model_selector", "float", (1,))], random_layers((1, 2), rng))
    with pytest.raises(PolicyError, match="input 'model_selector'"):
        compile_policies({"a": taken, "b": one}, tmp_path / "p.so", name="p")
    with pytest.raises(PolicyError, match="EmitC class holds one"):
        source_text(artefact_of("p", {"a": one, "b": one}), "emitc", class_name="P")
    assert not list(tmp_path.iterdir())


# --- bad input ----------------------------------------------------------------------------------------------


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ToolchainError, match="no C\\+\\+ compiler: neither g\\+\\+ nor clang") as caught:
        compile_policy(threshold_policy(), tmp_path / "p.so")
    assert "apt install g++" in (caught.value.hint or "")
    monkeypatch.setenv("CXX", "my-g++")
    with pytest.raises(ToolchainError, match="'my-g\\+\\+' that CXX names is not there"):
        find_compiler()
    with pytest.raises(ToolchainError, match="compiler 'elsewhere' is not there"):
        find_compiler("elsewhere")


def test_a_compiler_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="failed with exit code") as caught:
        compile_policy(threshold_policy(), tmp_path / "p.so", march="no-such-cpu")
    assert "--march" in (caught.value.hint or "")
    assert "-march=no-such-cpu" in caught.value.command
    assert not list(tmp_path.iterdir())


def test_an_object_for_another_cpu_makes_no_instance(tmp_path: Path) -> None:
    if has_isa("x86-64-v4"):
        pytest.skip("this CPU has everything that could be asked for")
    made = compile_policy(threshold_policy(), tmp_path / "p.so", march="x86-64-v4")
    with pytest.raises(PolicyError, match="x86-64-v4"):
        CompiledModel(made.path)
    with pytest.raises(PolicyError, match="makes no instance here"):
        CompiledBatch(made.path, threshold_policy().graph, 1)


def test_constants_without_end_are_refused(tmp_path: Path) -> None:
    make = GraphBuilder()
    table = make.constant(np.arange(3 << 20, dtype=np.float32))
    make.output("decision", make.apply("GATHER", table, make.input(TensorSpec("i", "int64_t", (1,))), axis=0))
    with pytest.raises(PolicyError, match="bytes of constants"):
        compile_policy(policy_of(make.build()), tmp_path / "p.so")


def test_names_that_are_words_of_cpp(tmp_path: Path) -> None:
    make = GraphBuilder()
    names = ("new", "default", "int", "class", "inputs", "workspace", "dense", "row", "r", "i", "register", "in_i")
    values = [make.input(TensorSpec(name, "float", (2,))) for name in names]
    total = values[0]
    for value in values[1:]:
        total = total + value
    make.output("operator", total)
    make.output("template", make.dense(total, np.ones((2, 3), np.float32), np.zeros(3, np.float32)))
    graph = make.build()
    rng = np.random.default_rng(14)
    check_graph(graph, {name: rng.normal(size=(9, 2)).astype(np.float32) for name in names}, tmp_path)


def test_an_input_larger_than_a_stack(tmp_path: Path) -> None:
    make = GraphBuilder()
    x = make.input(TensorSpec("x", "int64_t", (1 << 21,)))
    make.output("last", make.apply("SLICE", x, begin=((1 << 21) - 1,), size=(1,)))
    inputs = {"x": np.arange(2 << 21).reshape(2, -1)}
    check_graph(make.build(), inputs, tmp_path)


def test_a_file_that_is_no_compiled_policy(tmp_path: Path) -> None:
    file = tmp_path / "p.so"
    file.write_bytes(b"not ELF")
    with pytest.raises(PolicyError, match="no compiled policy"):
        CompiledBatch(file, threshold_policy().graph, 1)
    made = compile_policy(threshold_policy(), tmp_path / "q.so")
    with pytest.raises(PolicyError, match="is another policy: its inputs are cost_estimate"):
        CompiledBatch(made.path, small_eviction(np.random.default_rng(15), registers=3).graph, 1)


def test_compilers_are_looked_for_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "clang++-19").symlink_to(shutil.which("true", path="/bin:/usr/bin") or "/bin/true")
    assert find_compiler().path == tmp_path / "clang++-19"
    monkeypatch.setattr(cxx.platform, "machine", lambda: "aarch64")
    assert usual_isa() == ""


# --- timing -------------------------------------------------------------------------------------------------


def test_timing_names_its_backends_and_compares_their_decisions() -> None:
    policy = threshold_policy()
    timing = time_policy(policy, others={"wrong": lambda row: {"inlining_decision": np.array([2])}}, observations=50)
    shares = {each.backend: each.equal_decisions for each in timing.backends}
    assert shares == {
        "compiled, a batch": 1.0,
        "compiled, one by one": 1.0,
        "interpreter, a batch": 1.0,
        "interpreter, one by one": 1.0,
        "wrong": 0.0,
    }
    assert all(each.ns_per_decision > 0 for each in timing.backends)
