"""A graph that exists is valid; everything else is refused with a reason."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy_samples import sample_policies
from pymlgo.errors import PolicyError
from pymlgo.policy import values
from pymlgo.policy.builder import GraphBuilder
from pymlgo.policy.graph import Graph, Node, Output, live_nodes
from pymlgo.policy.ops import OPERATORS
from pymlgo.tensor_spec import TensorSpec

X = TensorSpec("x", "float", (2, 3))
I = TensorSpec("i", "int64_t", (3,))  # noqa: E741


def graph(*nodes: Node, inputs=(X, I), output: str = "y", constants=None) -> Graph:
    return Graph(inputs=inputs, nodes=nodes, outputs=(Output(name="y", value=output),), constants=constants or {})


def node(op: str, *inputs: str, output: str = "y", **attributes) -> Node:
    return Node(op=op, inputs=inputs, output=output, attributes=attributes)


def test_types_are_inferred() -> None:
    made = graph(node("RELU", "x", output="r"), node("SUM", "r", axes=(1,), keep_dims=False))
    assert str(made.types["r"]) == "float[2, 3]"
    assert made.decision == TensorSpec("y", "float", (2,))


WRONG = {
    "unknown operator": (node("CONV_2D", "x"), "CONV_2D node 'y': unknown operator"),
    "unknown value": (node("RELU", "z"), "reads 'z', which nothing makes"),
    "itself": (node("RELU", "y"), "is made later or depends on it"),
    "operands": (node("ADD", "x"), "takes 2 operands, found 1"),
    "mixed types": (node("ADD", "x", "i"), "different types: float\\[2, 3\\] and int64_t\\[3\\]"),
    "integer division": (node("DIV", "i", "i"), "must be of float"),
    "broadcast": (node("ADD", "x", "c4"), "do not broadcast"),
    "attribute missing": (node("RESHAPE", "x"), "lacks the attribute 'shape'"),
    "attribute unknown": (node("RELU", "x", axis=1), "unknown attribute 'axis'"),
    "attribute type": (node("RESHAPE", "x", shape=6), "attribute 'shape' must be tuple"),
    "attribute element": (node("RESHAPE", "x", shape=(6.0,)), "attribute 'shape' must be tuple"),
    "reshape": (node("RESHAPE", "x", shape=(7,)), "cannot make float\\[7\\] from float\\[2, 3\\]"),
    "dimension": (node("RESHAPE", "x", shape=(-6, -1)), "dimension below 1"),
    "axis": (node("ARG_MAX", "x", axis=2, type="int64_t"), "axis 2 is outside"),
    "negative axis": (node("SOFTMAX", "s"), "needs at least one axis"),
    "axes": (node("SUM", "x", axes=(1, 0), keep_dims=True), "do not ascend"),
    "no axes": (node("SUM", "x", axes=(), keep_dims=True), "reduces no axis"),
    "permutation": (node("TRANSPOSE", "x", permutation=(0, 0)), "does not fit"),
    "tile": (node("TILE", "x", multiples=(1, 0)), "do not fit"),
    "tile too large": (node("TILE", "x", multiples=(2**11, 2**11)), "more than"),
    "slice": (node("SLICE", "x", begin=(0, 2), size=(2, 2)), "leave float"),
    "squeeze": (node("SQUEEZE", "x", axes=(0,)), "are not all 1"),
    "concatenation": (node("CONCATENATION", "x", "c4", axis=0), "do not join"),
    "pack": (node("PACK", "x", "c4", axis=0), "operands differ"),
    "gather": (node("GATHER", "x", "x", axis=0), "indices must be of int32_t or int64_t"),
    "cast": (node("CAST", "x", type="float16"), "unknown element type 'float16'"),
    "boundaries": (node("BUCKETIZE", "x", "c4"), None),
    "boundaries live": (node("BUCKETIZE", "x", "i"), "must be a constant float vector"),
    "boundaries fall": (node("BUCKETIZE", "x", "falling"), "do not ascend"),
    "weights": (node("FULLY_CONNECTED", "x", "w", activation="none"), "want 4 inputs a row"),
    "weights live": (node("FULLY_CONNECTED", "x", "x", activation="none"), "must be constants"),
    "bias": (node("FULLY_CONNECTED", "x", "w3", "c4", activation="none"), "bias must be float\\[5\\]"),
    "activation": (node("FULLY_CONNECTED", "x", "w3", activation="gelu"), "unknown activation 'gelu'"),
    "infinite weights": (node("FULLY_CONNECTED", "x", "winf", activation="none"), "not finite"),
    "select": (node("SELECT_V2", "x", "x", "x"), "condition must be of bool"),
    "logic": (node("LOGICAL_AND", "x", "x"), "must be of bool"),
    "name": (node("RELU", "x", output="a-b"), "'a-b' is not a C identifier"),
    "taken name": (node("RELU", "x", output="i"), "another value already has this name"),
    "bool output": (node("LESS", "x", "x"), "of type bool"),
}
CONSTANTS = {
    "c4": np.arange(4, dtype=np.float32),
    "s": np.float32(1).reshape(()),
    "falling": np.float32([1, 0]),
    "w": np.zeros((5, 4), np.float32),
    "w3": np.zeros((5, 3), np.float32),
    "winf": np.full((5, 3), np.inf, np.float32),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused(case: str) -> None:
    wrong, message = WRONG[case]
    if message is None:
        graph(wrong, constants=CONSTANTS)
        return
    with pytest.raises(PolicyError, match=message):
        graph(wrong, constants=CONSTANTS)


def test_a_cycle_of_two_is_refused() -> None:
    with pytest.raises(PolicyError, match="RELU node 'a' reads 'y', which is made later"):
        graph(node("RELU", "y", output="a"), node("RELU", "a"))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((X, X), "input 'x': another value"),
        ((TensorSpec("a.b", "float", (1,)),), "input: 'a.b' is not a C identifier"),
        ((TensorSpec("9", "float", (1,)),), "not a C identifier"),
        ((TensorSpec("x", "float", (1,) * 9),), "more than 8 dimensions"),
        ((TensorSpec("x", "int8_t", (1 << 23,)),), "more than 4194304 elements"),
    ],
)
def test_refused_inputs(inputs: tuple[TensorSpec, ...], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        graph(node("RELU", inputs[0].name), inputs=inputs)


def test_outputs_must_exist_and_differ() -> None:
    relu = node("RELU", "x", output="r")
    with pytest.raises(PolicyError, match="has no output"):
        Graph(inputs=(X,), nodes=(relu,), outputs=())
    with pytest.raises(PolicyError, match="which nothing makes"):
        graph(relu)
    with pytest.raises(PolicyError, match="another output already"):
        Graph(inputs=(X,), nodes=(relu,), outputs=(Output(name="y", value="r"), Output(name="y", value="x")))


def test_nan_weights_are_refused() -> None:
    with pytest.raises(PolicyError, match="constant 'c' holds NaN"):
        graph(node("ADD", "x", "c"), constants={"c": np.full(3, np.nan, np.float32)})


def test_infinite_constants_are_values() -> None:
    assert graph(node("ADD", "x", "c"), constants={"c": np.full(3, np.inf, np.float32)}).decision.shape == (2, 3)


def test_node_and_element_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymlgo.policy.graph.LARGEST_NODE_COUNT", 3)
    with pytest.raises(PolicyError, match="4 nodes, more than 3"):
        graph(*(node("RELU", "x", output=f"r{index}") for index in range(4)))
    monkeypatch.setattr("pymlgo.policy.graph.LARGEST_GRAPH_ELEMENTS", 10)
    with pytest.raises(PolicyError, match="15 elements, more than 10"):
        graph(node("RELU", "x"))


def test_constants_are_copied_and_read_only() -> None:
    mine = np.zeros(3, np.float32)
    made = graph(node("ADD", "x", "c"), constants={"c": mine})
    mine[0] = 7
    assert made.constants["c"][0] == 0
    with pytest.raises(ValueError, match="read-only"):
        made.constants["c"][0] = 1


def test_the_fingerprint_sees_structure_and_weights() -> None:
    def made(op: str, value: float) -> str:
        return graph(node(op, "x", "c"), constants={"c": np.full(3, value, np.float32)}).fingerprint()

    assert made("ADD", 1) == made("ADD", 1)
    assert len({made("ADD", 1), made("SUB", 1), made("ADD", 2)}) == 3


def test_graphs_are_pickled_whole() -> None:
    for policy in sample_policies().values():
        assert pickle.loads(pickle.dumps(policy)).graph.fingerprint() == policy.graph.fingerprint()


def test_live_nodes_drops_what_no_output_needs() -> None:
    made = graph(node("RELU", "x", output="dead"), node("ABS", "x"))
    assert [each.op for each in live_nodes(made, ["y"])] == ["ABS"]


def test_the_builder_shares_constants_and_drops_unused_ones() -> None:
    make = GraphBuilder()
    x = make.input(X)
    make.constant(np.zeros(1000, np.float32))
    make.output("y", (x + 1) * 1)
    assert len(make.build().constants) == 1


def test_the_builder_names_what_is_wrong_at_once() -> None:
    make = GraphBuilder()
    x = make.input(X)
    with pytest.raises(PolicyError, match="input 'x': another value"):
        make.input(X)
    with pytest.raises(PolicyError, match="unknown operator 'ADDD'"):
        make.apply("ADDD", x, x)
    with pytest.raises(PolicyError, match="ADD: operands are of different types"):
        make.apply("ADD", x, x.cast("int64_t"))
    with pytest.raises(PolicyError, match="unknown activation"):
        make.dense(x, np.zeros((3, 1)), np.zeros(1), activation="swish")


def test_every_operator_states_its_meaning() -> None:
    from pymlgo.policy import ops

    documented = ops.__doc__ or ""
    for op in OPERATORS:
        assert op in documented or op in ("LOGICAL_OR", "LOGICAL_NOT"), op


@given(st.text(max_size=12))
def test_identifiers_are_those_of_c(name: str) -> None:
    valid = name.isascii() and name.isidentifier()
    try:
        values.check_identifier(name, "value")
        assert valid
    except PolicyError:
        assert not valid
