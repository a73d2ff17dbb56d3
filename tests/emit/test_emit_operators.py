"""Generated code computes what the interpreter computes, bit for bit, operator by operator and in random graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from compiled_graphs import check_graph, random_inputs

from pymlgo.emit import cxx
from pymlgo.errors import PolicyError
from pymlgo.policy.builder import GraphBuilder, Value
from pymlgo.policy.graph import Graph
from pymlgo.tensor_spec import TensorSpec

COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
FUNCTIONS = ("SQRT", "EXP", "LOG", "TANH", "LOGISTIC", "ELU", "RELU", "ABS", "NEG")
UNARY = (*FUNCTIONS, "LOGICAL_NOT", "SOFTMAX", "LOG_SOFTMAX")
BINARY = ("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", *COMPARISONS, "LOGICAL_AND", "LOGICAL_OR")


def output(make: GraphBuilder, value: Value, name: str) -> None:
    make.output(name, value.cast("int8_t") if value.type.type == "bool" else value)


def elementwise_graph() -> Graph:
    """Every elementwise operator over vectors, and over a matrix with a row."""
    make = GraphBuilder()
    a, b = make.input(TensorSpec("a", "float", (9,))), make.input(TensorSpec("b", "float", (9,)))
    m, row = make.input(TensorSpec("m", "float", (4, 3))), make.input(TensorSpec("row", "float", (3,)))
    i, j = make.input(TensorSpec("i", "int64_t", (9,))), make.input(TensorSpec("j", "int64_t", (9,)))
    for op in ("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM"):
        output(make, make.apply(op, a, b), f"{op}_f")
        output(make, make.apply(op, m, row), f"{op}_rows")
        if op != "DIV":
            output(make, make.apply(op, i, j), f"{op}_i")
    for op in COMPARISONS:
        output(make, make.apply(op, a, b), f"{op}_f")
        output(make, make.apply(op, i, j), f"{op}_i")
    for op in FUNCTIONS:
        output(make, make.apply(op, a), f"{op}_f")
    output(make, make.apply("ABS", i), "ABS_i")
    output(make, make.apply("NEG", i), "NEG_i")
    less, equal = a < b, i.equals(j)
    output(make, make.apply("LOGICAL_AND", less, equal), "both")
    output(make, make.apply("LOGICAL_OR", less, equal), "either")
    output(make, make.apply("LOGICAL_NOT", less), "not_less")
    output(make, make.select(less, a, b), "selected")
    output(make, make.select(m < row, row, m), "selected_rows")
    return make.build()


@pytest.mark.parametrize("cxx", ["g++", "clang++-22"])
def test_elementwise_operators(tmp_path: Path, cxx: str) -> None:
    graph = elementwise_graph()
    check_graph(graph, random_inputs(graph, np.random.default_rng(1), 400), tmp_path, cxx=cxx)


def test_casts_saturate_and_wrap_as_the_interpreter_does(tmp_path: Path) -> None:
    make = GraphBuilder()
    kinds = (
        "float",
        "double",
        "int8_t",
        "uint8_t",
        "int16_t",
        "uint16_t",
        "int32_t",
        "uint32_t",
        "int64_t",
        "uint64_t",
    )
    for source in kinds:
        value = make.input(TensorSpec(f"x_{source}", source, (5,)))
        for made in kinds:
            if made != source:
                output(make, value.cast(made), f"{source}_to_{made}")
        output(make, value.cast("bool"), f"{source}_to_bool")
    graph = make.build()
    inputs = random_inputs(graph, np.random.default_rng(2), 300)
    for name in ("x_float", "x_double"):
        edges = [
            127.5,
            128,
            -128.9,
            -129,
            255.9,
            256,
            32768,
            65536,
            2**31,
            -(2.0**31),
            2.0**32,
            2.0**63,
            -(2.0**63),
            2.0**64,
        ]
        inputs[name].ravel()[: len(edges)] = edges
    check_graph(graph, inputs, tmp_path)


def test_moves_of_elements(tmp_path: Path) -> None:
    make = GraphBuilder()
    x = make.input(TensorSpec("x", "float", (2, 3, 4)))
    v = make.input(TensorSpec("v", "float", (3,)))
    one = make.input(TensorSpec("one", "float", (1,)))
    turned = make.apply("TRANSPOSE", x, permutation=(2, 0, 1))
    window = make.apply("SLICE", x, begin=(0, 1, 1), size=(2, 2, 3))
    output(make, turned, "turned")
    output(make, turned.reshape(24), "turned_flat")
    output(make, window, "window")
    output(make, window.reshape(3, 4), "window_reshaped")
    output(make, make.apply("TILE", v, multiples=(3,)), "tiled")
    output(make, make.apply("TILE", x, multiples=(2, 1, 2)), "tiled_twice")
    output(make, make.apply("TILE", one, multiples=(5,)) + 1, "spread")
    output(make, make.apply("PACK", v, v * 2, v, axis=1), "packed")
    output(make, make.apply("PACK", one, one, axis=0), "packed_ones")
    output(make, make.apply("EXPAND_DIMS", v, axis=1), "expanded")
    output(make, make.apply("SQUEEZE", make.apply("EXPAND_DIMS", v * 3, axis=0), axes=(0,)), "squeezed")
    nested = make.concatenate([make.concatenate([x * 2, x], axis=2), make.concatenate([x, abs(x)], axis=2)], axis=1)
    output(make, nested, "nested")
    output(make, make.apply("TRANSPOSE", nested, permutation=(1, 2, 0)).reshape(6, 16), "nested_turned")
    output(make, x, "the_input_itself")
    output(make, make.constant(np.float32([1, 2, 3])), "a_constant")
    doubled = x + x
    output(make, doubled, "twice")
    output(make, doubled, "twice_again")
    graph = make.build()
    check_graph(graph, random_inputs(graph, np.random.default_rng(3), 20), tmp_path)


def test_gather_clamps(tmp_path: Path) -> None:
    make = GraphBuilder()
    table = make.constant(np.arange(12, dtype=np.float32).reshape(4, 3))
    live = make.input(TensorSpec("live", "float", (3, 4)))
    which = make.input(TensorSpec("which", "int64_t", (2, 2)))
    narrow = make.input(TensorSpec("narrow", "int32_t", ()))
    output(make, make.apply("GATHER", table, which, axis=0), "rows")
    output(make, make.apply("GATHER", table, which + 1, axis=1), "columns")
    output(make, make.apply("GATHER", live, narrow, axis=1), "of_an_input")
    output(make, make.apply("GATHER", live * 2, narrow, axis=0), "of_a_value")
    graph = make.build()
    rng = np.random.default_rng(4)
    inputs = random_inputs(graph, rng, 50)
    inputs["which"] = rng.integers(-3, 8, inputs["which"].shape)
    inputs["narrow"] = rng.integers(-2, 6, inputs["narrow"].shape).astype(np.int32)
    check_graph(graph, inputs, tmp_path)


def test_reductions_and_softmax(tmp_path: Path) -> None:
    make = GraphBuilder()
    x = make.input(TensorSpec("x", "float", (3, 4, 5)))
    i = make.input(TensorSpec("i", "int64_t", (6, 2)))
    for op in ("SUM", "MEAN", "REDUCE_MAX"):
        for axes in ((0,), (1,), (2,), (0, 2), (0, 1, 2)):
            name = f"{op}_{''.join(map(str, axes))}"
            output(make, make.apply(op, x, axes=axes, keep_dims=False), name)
            output(make, make.apply(op, x * 2, axes=axes, keep_dims=True), f"{name}_kept")
    output(make, make.apply("SOFTMAX", x), "softmax")
    output(make, make.apply("LOG_SOFTMAX", x), "log_softmax")
    output(make, make.apply("SOFTMAX", make.apply("TRANSPOSE", x, permutation=(1, 2, 0))), "softmax_turned")
    for axis in range(3):
        output(make, make.apply("ARG_MAX", x, axis=axis, type="int64_t"), f"argmax_{axis}")
    output(make, make.apply("ARG_MAX", i, axis=0, type="int32_t"), "argmax_i")
    graph = make.build()
    inputs = random_inputs(graph, np.random.default_rng(5), 300)
    inputs["x"][:100] = np.round(inputs["x"][:100])  # ties
    check_graph(graph, inputs, tmp_path)


@pytest.mark.parametrize(("cxx", "march"), [("g++", "x86-64"), ("clang++-22", "x86-64-v3")])
def test_dense_layers_of_every_width(tmp_path: Path, cxx: str, march: str) -> None:
    rng = np.random.default_rng(6)
    make = GraphBuilder()
    wide, row, flat = (
        make.input(TensorSpec(name, "float", shape))
        for name, shape in (("wide", (2, 7, 5)), ("row", (1, 5)), ("flat", (5,)))
    )
    for outputs in (1, 3, 4, 5, 8, 9, 16, 20, 31, 100):
        weights, bias = rng.normal(size=(5, outputs)).astype(np.float32), rng.normal(size=outputs).astype(np.float32)
        for name, x in (("wide", wide), ("row", row), ("flat", flat)):
            output(make, make.dense(x, weights, bias, activation="relu"), f"{name}_{outputs}")
    turned = make.apply("TRANSPOSE", wide, permutation=(1, 0, 2))
    output(make, make.dense(turned, weights, bias), "turned")
    window = make.apply("SLICE", wide, begin=(0, 2, 0), size=(2, 3, 5))
    output(make, make.dense(window, weights, bias), "window")
    joined = make.concatenate([make.dense(row, weights, bias), make.dense(row, weights, bias)], axis=1)
    output(make, joined, "joined")
    graph = make.build()
    check_graph(graph, random_inputs(graph, rng, 40), tmp_path, cxx=cxx, march=march)


def test_buckets_at_their_edges(tmp_path: Path) -> None:
    make = GraphBuilder()
    rng = np.random.default_rng(7)
    i = make.input(TensorSpec("i", "int64_t", (1,)))
    x = make.input(TensorSpec("x", "float", (6,)))
    for index, boundaries in enumerate(
        (
            [0.0],
            [0.0] * 999,
            [-np.inf, -1, 0, 1, np.inf],
            [0, 0, 1, 1, 1, 2, 3, 3],
            np.sort(rng.normal(0, 100, 255)),
            np.sort(rng.normal(0, 1e9, 256)),
            [2**24, 2**24 + 2, 2**31, 2**53],
        )
    ):
        table = np.asarray(boundaries, np.float32)
        for name, value in (("i", i), ("x", x)):
            bucket = value.bucketize(table)
            output(make, bucket, f"bucket_{name}_{index}")
            share = value.bucketize(table).cast("float") / len(table)
            output(make, share * share, f"square_{name}_{index}")
            output(make, make.apply("SQRT", value.bucketize(table).cast("float")) * 2 - 1, f"root_{name}_{index}")
    graph = make.build()
    inputs = random_inputs(graph, rng, 500)
    edges = [2**24 + 1, 2**31 + 1, 2**53 + 1, -(2**40), 2**63 - 1, -(2**63), 0, -1, 1]
    inputs["i"][: len(edges), 0] = edges
    check_graph(graph, inputs, tmp_path)


def test_trees(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    make = GraphBuilder()
    rows, row = make.input(TensorSpec("rows", "float", (7, 4))), make.input(TensorSpec("row", "float", (4,)))
    tables = random_trees(rng, trees=20, features=4)
    constants = [make.constant(each) for each in tables]
    output(make, make.apply("TreeEnsemble", rows, *constants, base=0.25), "of_rows")
    output(make, make.apply("TreeEnsemble", row, *constants, base=-1.0), "of_one")
    graph = make.build()
    check_graph(graph, random_inputs(graph, rng, 100), tmp_path)


def random_trees(rng: np.random.Generator, *, trees: int, features: int) -> list[np.ndarray]:
    """Trees parents first, some of a single leaf: feature, threshold, left, right, leaf, roots."""
    nodes: list[list[int]] = []
    leaves = 0
    roots = []
    for _ in range(trees):
        waiting: list[tuple[int, int] | None] = [None]
        depth = int(rng.integers(0, 40))
        while waiting:
            slot = waiting.pop(0)
            if depth > 0:
                depth -= 1
                reference = len(nodes)
                nodes.append([0, 0])
                waiting += [(reference, 0), (reference, 1)]
            else:
                reference = ~leaves
                leaves += 1
            if slot is None:
                roots.append(reference)
            else:
                nodes[slot[0]][slot[1]] = reference
    children = np.asarray(nodes, np.int32)
    return [
        rng.integers(0, features, len(nodes)).astype(np.int32),
        rng.normal(0, 5, len(nodes)).astype(np.float32),
        children[:, 0],
        children[:, 1],
        rng.normal(size=leaves).astype(np.float32),
        np.asarray(roots, np.int32),
    ]


def test_a_graph_of_constants_alone(tmp_path: Path) -> None:
    make = GraphBuilder()
    folded = make.constant(np.float32([1, 2, 3])) * 2 + 1
    output(make, folded, "folded")
    output(make, folded < 4, "folded_bool")
    make.input(TensorSpec("unused", "int64_t", (1,)))
    check_graph(make.build(), {"unused": np.zeros((3, 1), np.int64)}, tmp_path)


# --- random graphs ------------------------------------------------------------------------------------------


def random_graph(rng: np.random.Generator, nodes: int) -> Graph:
    """Operators applied to whatever is there and fits; every third value is an output."""
    make = GraphBuilder()
    shapes = [(), (1,), (6,), (1, 6), (6, 1), (6, 3), (3, 6), (2, 3), (6, 6), (1, 1)]
    pool = [
        make.input(TensorSpec(f"in{index}", str(rng.choice(["float", "float", "int64_t", "int32_t"])), shape))
        for index, shape in enumerate(shapes)
    ]
    made = 0
    while made < nodes:
        try:
            value = random_node(make, rng, pool)
        except PolicyError:
            continue
        if value.type.element_count <= 400:
            pool.append(value)
            made += 1
    for index, value in enumerate(pool[len(shapes) :]):
        if index % 3 == 0 or index >= nodes - 4:
            output(make, value, f"o{index}")
    return make.build()


def random_node(make: GraphBuilder, rng: np.random.Generator, pool: list[Value]) -> Value:
    def pick() -> Value:
        return pool[int(len(pool) * rng.random() ** 0.5)]  # the later ones more often

    x = pick()
    shape = x.type.shape
    axis = int(rng.integers(0, max(1, len(shape))))
    match int(rng.integers(0, 16)):
        case 0 | 1:
            return make.apply(str(rng.choice(UNARY)), x)
        case 2 | 3 | 4:
            y = pick()
            return make.apply(str(rng.choice(BINARY)), x, y if y.type.type == x.type.type else y.cast(x.type.type))
        case 5:
            condition = pick()
            return make.select(condition.cast("bool"), x, pick().cast(x.type.type))
        case 6:
            return x.cast(str(rng.choice(["float", "int64_t", "int32_t"])))
        case 7:
            wanted = [(), (1,), (6,), (1, 6), (6, 1), (3, 2), (2, 3), (9, 2), (18,), (6, 3), (36,), (4, 9)]
            return x.reshape(*wanted[int(rng.integers(0, len(wanted)))])
        case 8:
            return make.concatenate([x, pick(), x], axis=axis)
        case 9:
            return make.apply("PACK", x, pick(), axis=axis)
        case 10:
            return make.apply("TRANSPOSE", x, permutation=tuple(int(each) for each in rng.permutation(len(shape))))
        case 11:
            begin = tuple(int(rng.integers(0, size)) for size in shape)
            size = tuple(int(rng.integers(1, whole - first + 1)) for first, whole in zip(begin, shape, strict=True))
            return make.apply("SLICE", x, begin=begin, size=size)
        case 12:
            return make.apply("TILE", x, multiples=tuple(int(rng.integers(1, 3)) for _ in shape))
        case 13:
            outputs = int(rng.integers(1, 12))
            weights = rng.normal(size=(shape[-1] if shape else 1, outputs)).astype(np.float32)
            return make.dense(x, weights, np.zeros(outputs, np.float32), activation=str(rng.choice(["none", "relu"])))
        case 14:
            return x.bucketize(np.sort(np.round(rng.normal(0, 9, 20))).astype(np.float32)).cast("float") / 20
        case _:
            op = str(rng.choice(["SUM", "MEAN", "REDUCE_MAX", "ARG_MAX", "GATHER"]))
            if op == "ARG_MAX":
                return make.apply(op, x, axis=axis, type="int64_t")
            if op == "GATHER":
                return make.apply(op, x, pick(), axis=axis)
            return make.apply(op, x, axes=(axis,), keep_dims=bool(rng.integers(0, 2)))


USUAL_SEEDS = (*range(6), 58, 62)
"""58 made a tile of ten axes; 62 met wrong code of g++ 12 at -O3 for AVX2."""

MORE_SEEDS = tuple(seed for seed in range(120) if seed not in USUAL_SEEDS)


@pytest.mark.parametrize("seed", [*USUAL_SEEDS, *(pytest.param(seed, marks=pytest.mark.full) for seed in MORE_SEEDS)])
def test_random_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    if seed % 2 == 0:  # where g++ has made wrong code
        monkeypatch.setattr(cxx, "FLAGS", tuple("-O3" if each == "-O2" else each for each in cxx.FLAGS))
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 60)
    check_graph(graph, random_inputs(graph, rng, 60), tmp_path, cxx="clang++-22" if seed % 4 == 3 else "g++")
