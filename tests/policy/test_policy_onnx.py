"""ONNX out and in: the same decisions, and damaged models refused."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy_samples import observations, sample_policies
from pymlgo.errors import MissingDependency, PolicyError
from pymlgo.policy.builder import GraphBuilder
from pymlgo.policy.interpreter import evaluate_batch
from pymlgo.policy.onnx.reader import read_onnx
from pymlgo.policy.onnx.writer import write_onnx
from pymlgo.policy.policy import Policy
from pymlgo.tensor_spec import TensorSpec

onnx = pytest.importorskip("onnx")


@pytest.mark.parametrize("name", sample_policies())
def test_round_trip(name: str, tmp_path: Path) -> None:
    policy = sample_policies()[name]
    write_onnx(policy, tmp_path / "policy.onnx")
    again = read_onnx(tmp_path / "policy.onnx")
    assert (again.problem, again.advice) == (policy.problem, policy.advice)
    assert dict(again.defaults) == dict(policy.defaults)
    assert dict(again.provenance) == dict(policy.provenance)
    assert again.graph.inputs == policy.graph.inputs
    batch = observations(policy, 100)
    found = evaluate_batch(again.graph, batch)
    for key, value in evaluate_batch(policy.graph, batch).items():
        np.testing.assert_array_equal(found[key], value)


def test_every_other_operator_round_trips(tmp_path: Path) -> None:
    make = GraphBuilder()
    x, n = make.input(TensorSpec("x", "float", (2, 3, 4))), make.input(TensorSpec("n", "int64_t", (3,)))
    make.output("inlining_decision", n)
    for op in ("EXP", "LOGISTIC", "ELU", "SQRT", "TANH", "SOFTMAX", "LOG_SOFTMAX"):
        make.output(f"y_{op}", make.apply(op, x))
    for op in ("SUM", "MEAN", "REDUCE_MAX"):
        for keep in (False, True):
            make.output(f"y_{op}_{keep}", make.apply(op, x, axes=(0, 2), keep_dims=keep))
    for op in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
        make.output(f"y_{op}", make.apply(op, n, make.constant(np.asarray(1))).cast("float"))
    both = make.apply("LOGICAL_AND", x < 1, make.apply("LOGICAL_NOT", x < 0))
    make.output("y_logic", make.apply("LOGICAL_OR", both, x > 2).cast("int32_t"))
    make.output("y_packed", make.apply("PACK", x, x * 2, axis=1))
    make.output("y_turned", make.apply("TRANSPOSE", x, permutation=(2, 0, 1)))
    make.output("y_sliced", x.slice((0, 1, 2), (2, 2, 1)))
    make.output("y_tiled", x.tile(1, 2, 1))
    make.output("y_squeezed", make.apply("SQUEEZE", make.apply("EXPAND_DIMS", x, axis=1), axes=(1,)))
    make.output("y_gathered", make.apply("GATHER", x, n, axis=1))
    make.output("y_dense", make.dense(x, np.ones((4, 2)), np.ones(2), activation="relu"))
    make.output("y_arg", x.arg_max(1, "int32_t"))
    make.output("y_extremes", x.maximum(0.5).minimum(2))
    policy = Policy(problem="inlining", graph=make.build(), advice="inlining_decision")
    write_onnx(policy, tmp_path / "policy.onnx")
    batch = observations(policy, 20)
    found = evaluate_batch(read_onnx(tmp_path / "policy.onnx").graph, batch)
    for key, value in evaluate_batch(policy.graph, batch).items():
        np.testing.assert_array_equal(found[key], value, err_msg=key)


def model_of(*nodes, inputs=(("x", [1, 3]),), outputs=("inlining_decision",), constants=()) -> bytes:
    helper, numbers = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(name, numbers, shape) for name, shape in inputs],
        [helper.make_tensor_value_info(name, numbers, None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


def read_bytes(data: bytes, folder: Path) -> Policy:
    (folder / "m.onnx").write_bytes(data)
    return read_onnx(folder / "m.onnx")


def test_a_network_of_another_exporter(tmp_path: Path) -> None:
    """Gemm and MatMul as PyTorch writes them, a batch dimension without a number, axes as attributes."""
    make = onnx.helper.make_node
    weights = np.float32([[1, 2], [3, 4], [5, 6]])
    data = model_of(
        make("Constant", [], ["low"], value_float=0.0),
        make("Clip", ["x", "low"], ["positive"]),
        make("Gemm", ["positive", "w", "b"], ["h"], transB=1),
        make("Relu", ["h"], ["r"]),
        make("MatMul", ["r", "v"], ["m"]),
        make("Flatten", ["m"], ["f"]),
        make("ReduceSum", ["f", "axes"], ["s"], keepdims=0),
        make("ArgMax", ["r"], ["a"], axis=1),
        make("Cast", ["a"], ["c"], to=1),
        make("Add", ["s", "c"], ["inlining_decision"]),
        inputs=(("x", ["batch", 3]),),
        constants=(
            ("w", weights.T.copy()),
            ("b", np.float32([0.5, -0.5])),
            ("v", np.float32([[1], [10]])),
            ("axes", np.asarray([1])),
        ),
    )
    policy = read_bytes(data, tmp_path)
    x = np.float32([[1, -2, 3]])
    hidden = np.maximum(np.maximum(x, 0) @ weights + [0.5, -0.5], 0)
    expected = hidden @ [[1], [10]] + hidden.argmax()
    assert policy.bind(policy.graph.inputs)({"x": x}).ravel().tolist() == expected.ravel().tolist()


MAKE = onnx.helper.make_node
RELU = [MAKE("Relu", ["x"], ["inlining_decision"])]
REFUSED = {
    "unknown operator": ({"nodes": [MAKE("Conv", ["x"], ["inlining_decision"])]}, "Conv node .* is not supported"),
    "unknown domain": ({"nodes": [MAKE("Relu", ["x"], ["inlining_decision"], domain="evil")]}, "domain 'evil'"),
    "cycle": (
        {"nodes": [MAKE("Relu", ["b"], ["a"]), MAKE("Relu", ["a"], ["b"]), MAKE("Relu", ["b"], ["inlining_decision"])]},
        "reads 'b', which nothing before it makes",
    ),
    "missing operand": ({"nodes": [MAKE("Add", ["x"], ["inlining_decision"])]}, "takes 2 operands, found 1"),
    "made twice": ({"nodes": [MAKE("Relu", ["x"], ["x"])]}, "must make one value that nothing else makes"),
    "dynamic": (
        {"nodes": [MAKE("Relu", ["x"], ["inlining_decision"])], "inputs": (("x", [1, "n"]),)},
        "dimension 1 is not static",
    ),
    "negative": (
        {"nodes": [MAKE("Relu", ["x"], ["inlining_decision"])], "inputs": (("x", [1, -3]),)},
        "dimension below 1",
    ),
    "huge": ({"nodes": [MAKE("Relu", ["x"], ["inlining_decision"])], "inputs": (("x", [2**40]),)}, "would take"),
    "no decision": ({"nodes": [MAKE("Relu", ["x"], ["y"])], "outputs": ("y",)}, "none of LLVM's decisions"),
    "not an identifier": (
        {"nodes": [MAKE("Relu", ["a/b"], ["inlining_decision"])], "inputs": (("a/b", [1]),)},
        "not a C identifier",
    ),
    "live weights": ({"nodes": [MAKE("MatMul", ["x", "x"], ["inlining_decision"])]}, "constant matrix"),
    "NaN": (
        {"nodes": [MAKE("Add", ["x", "n"], ["inlining_decision"])], "constants": (("n", np.float32([np.nan])),)},
        "holds NaN",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, tmp_path: Path) -> None:
    arguments, message = REFUSED[case]
    data = model_of(*arguments.pop("nodes") if "nodes" in arguments else (), **arguments)
    with pytest.raises(PolicyError, match=message):
        read_bytes(data, tmp_path)


def test_weights_in_other_files_are_not_read(tmp_path: Path) -> None:
    model = onnx.ModelProto.FromString(
        model_of(MAKE("Add", ["x", "w"], ["inlining_decision"]), constants=(("w", np.float32([1])),))
    )
    model.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
    entry = model.graph.initializer[0].external_data.add()
    entry.key, entry.value = "location", "/etc/passwd"
    with pytest.raises(PolicyError, match="lies in another file, which is not read"):
        read_bytes(model.SerializeToString(), tmp_path)


def test_trees_that_loop_are_refused(tmp_path: Path) -> None:
    tree = MAKE(
        "TreeEnsembleRegressor",
        ["x"],
        ["inlining_decision"],
        domain="ai.onnx.ml",
        nodes_treeids=[0, 0],
        nodes_nodeids=[0, 1],
        nodes_featureids=[0, 0],
        nodes_values=[0.0, 0.0],
        nodes_modes=["BRANCH_LEQ", "LEAF"],
        nodes_truenodeids=[1, 0],
        nodes_falsenodeids=[1, 0],
        target_treeids=[0],
        target_nodeids=[1],
        target_ids=[0],
        target_weights=[1.0],
        n_targets=1,
    )
    with pytest.raises(PolicyError, match="reaches a node in two ways"):
        read_bytes(model_of(tree), tmp_path)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_models(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.getbasetemp()
    write_onnx(sample_policies()["trees"], folder / "valid.onnx")
    content = bytearray((folder / "valid.onnx").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    with contextlib.suppress(PolicyError):
        read_bytes(bytes(content[: cut if cut % 3 == 0 else None]), folder)


def test_without_onnx_the_pip_line_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    for action in (
        lambda: read_onnx(tmp_path / "x.onnx"),
        lambda: write_onnx(sample_policies()["linear"], tmp_path / "x.onnx"),
    ):
        with pytest.raises(MissingDependency) as caught:
            action()
        assert caught.value.hint == "pip install 'pymlgo[onnx]'"
