"""`mlgo log show|stats|export`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from log_strategies import write

from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log import Header, LogWriter, read_log

GOLDEN = Path(__file__).parent / "golden"
HEADER = Header(
    features=(
        TensorSpec("cost", "int64_t", (1,)),
        TensorSpec("matrix", "float", (2, 2)),
        TensorSpec("decision", "uint8_t", (1,)),
    ),
    score=TensorSpec("delta_size", "double", (1,)),
    extra={"made_by": "a test"},
)


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    """Two contexts and an empty one; cost counts 0, 1, 2…, decision is its lowest bit, the score its negative."""
    path = tmp_path / "x.log"
    with path.open("wb") as stream, LogWriter(stream, HEADER) as writer:
        for name, first, count in (("f", 0, 12), ("empty", 12, 0), ("g", 12, 3)):
            writer.context(name)
            for cost in range(first, first + count):
                matrix = [cost, 0.5, float("nan") if cost == 14 else 0, 0]
                writer.observation({"cost": cost, "matrix": matrix, "decision": cost % 2})
                writer.outcome(-cost)
    return path


def test_show_prints_header_contexts_and_some_observations(run_mlgo, log_file: Path) -> None:
    code, out, err = run_mlgo("log", "show", log_file, "--limit", "2")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "3 features: cost int64_t[1], matrix float[2,2], decision uint8_t[1]",
        "score: delta_size double[1]",
        "made_by: 'a test'",
        "context 'f': 12 observations from 0 on",
        "  0: matrix=[0 0.5 0 0] -> 0",
        "  1: cost=1 matrix=[1 0.5 0 0] decision=1 -> -1",
        "  … 10 more",
        "context 'empty': 0 observations from 0 on",
        "context 'g': 3 observations from 0 on",
        "  … 3 more",
    ]


def test_show_picks_a_context(run_mlgo, log_file: Path) -> None:
    _, out, _ = run_mlgo("log", "show", log_file, "--context", "g")
    assert "context 'f'" not in out
    assert "  2: cost=14" in out


def test_stats_in_json_have_a_schema(run_mlgo, log_file: Path) -> None:
    code, out, _ = run_mlgo("log", "stats", log_file, "--json")
    stats = json.loads(out)
    assert code == 0
    assert stats["schema"] == "pymlgo/log-stats-1"
    expected = {"observations": 15, "contexts": 3, "distinct_contexts": 3, "empty_contexts": 1, "longest_context": 12}
    assert {key: stats[key] for key in expected} == expected
    assert (stats["action"], stats["advice"], stats["extra_keys"]) == ("decision", None, ["made_by"])
    cost, matrix, decision = stats["features"]
    assert (cost["minimum"], cost["maximum"], cost["mean"]) == (0, 14, 7.0)
    assert (matrix["shape"], matrix["non_finite"], matrix["maximum"]) == ([2, 2], 1, 14.0)
    assert decision["zero_fraction"] == pytest.approx(8 / 15)
    assert (stats["score"]["name"], stats["score"]["minimum"]) == ("delta_size", -14.0)
    assert (stats["error"], stats["error_offset"]) == (None, None)


def test_stats_as_text_name_action_and_score(run_mlgo, log_file: Path) -> None:
    _, out, _ = run_mlgo("log", "stats", log_file)
    assert "15 observations in 3 contexts (1 empty, 0 come back, the longest has 12)" in out
    rows = {line.split()[0]: line for line in out.splitlines()[2:] if line.split()}
    assert rows["decision"].endswith("action")
    assert rows["delta_size"].endswith("score")
    assert rows["matrix"].endswith("1 not finite")


def test_stats_of_a_log_without_observations(run_mlgo, tmp_path: Path) -> None:
    path = tmp_path / "empty.log"
    path.write_bytes(HEADER.to_line())
    code, out, _ = run_mlgo("log", "stats", path, "--json")
    assert code == 0
    assert json.loads(out)["features"][0]["mean"] is None
    assert run_mlgo("log", "stats", path)[0] == 0


def test_export_as_json_lines(run_mlgo, log_file: Path) -> None:
    code, out, _ = run_mlgo("log", "export", log_file)
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert lines[1] == {
        "context": "f",
        "observation": 1,
        "features": {"cost": 1, "matrix": [[1.0, 0.5], [0.0, 0.0]], "decision": 1},
        "outcome": -1.0,
    }
    assert [line["features"]["cost"] for line in lines] == list(range(15))
    assert lines[14]["features"]["matrix"] == [[14.0, 0.5], [None, 0.0]]


def test_export_as_npz(run_mlgo, log_file: Path, tmp_path: Path) -> None:
    assert run_mlgo("log", "export", log_file, "-o", tmp_path / "x.npz")[0] == 0
    with np.load(tmp_path / "x.npz") as arrays:
        assert arrays["context_names"].tolist() == ["f", "empty", "g"]
        assert arrays["context"].tolist() == [0] * 12 + [2] * 3
        assert arrays["observation"].tolist() == [*range(12), 0, 1, 2]
        assert arrays["feature.cost"].tolist() == list(range(15))
        assert arrays["feature.matrix"].shape == (15, 2, 2)
        assert arrays["feature.decision"].dtype == np.uint8
        assert arrays["outcome"].tolist() == [-cost for cost in range(15)]


def test_export_as_parquet(run_mlgo, log_file: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert run_mlgo("log", "export", log_file, "-o", tmp_path / "x.parquet")[0] == 0
    table = parquet.read_table(tmp_path / "x.parquet")
    assert table.column_names == ["context", "observation", *(f"feature.{s.name}" for s in HEADER.features), "outcome"]
    assert table["context"].to_pylist() == ["f"] * 12 + ["g"] * 3
    assert table["feature.cost"].to_pylist() == list(range(15))
    assert table["feature.matrix"].to_pylist()[1] == [1.0, 0.5, 0.0, 0.0]
    described = table.schema.field("feature.matrix").metadata[b"tensor_spec"]
    assert TensorSpec.from_json(described) == HEADER.features[1]


def test_exports_of_a_real_log_agree(run_mlgo, tmp_path: Path) -> None:
    log = read_log(GOLDEN / "eviction-22.log")
    _, out, _ = run_mlgo("log", "export", GOLDEN / "eviction-22.log")
    lines = [json.loads(line) for line in out.splitlines()]
    run_mlgo("log", "export", GOLDEN / "eviction-22.log", "-o", tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as arrays:
        for spec in log.header.features:
            values = log.contexts[0].features[spec.name]
            exported = arrays[f"feature.{spec.name}"].reshape(values.shape)
            assert np.array_equal(exported, values, equal_nan=spec.type == "float")  # clang itself writes NaN
            from_json = np.array([line["features"][spec.name] for line in lines], spec.dtype).reshape(values.shape)
            assert np.array_equal(from_json, values, equal_nan=spec.type == "float")


def test_batches_cross_contexts_and_cut_them() -> None:
    from pymlgo.training_log.batches import batches

    log = read_log(GOLDEN / "priority-22.log")
    got = list(batches(log, rows=16))
    assert [len(batch) for batch in got] == [16, 16, 16, 16, 6]
    assert np.concatenate([batch.numbers() for batch in got]).tolist() == list(range(70))
    spec = log.header.features[0]
    assert np.array_equal(np.concatenate([batch.feature(spec) for batch in got]), log.contexts[0].features[spec.name])


@pytest.mark.spec("training-log.damage")
@pytest.mark.parametrize("verb", ["show", "stats", "export"])
def test_a_damaged_log_is_told_whole_with_an_error_and_exit_1(run_mlgo, log_file: Path, verb: str) -> None:
    log_file.write_bytes(log_file.read_bytes()[:-10])
    code, out, err = run_mlgo("log", verb, log_file)
    assert code == 1
    assert {"show": "'g': 2 observations", "stats": "14 observations", "export": '"cost":13'}[verb] in out
    assert err.startswith(f"error: {log_file}, byte ")
    assert "the log ends within observation 2 of context 'g'" in err


@pytest.mark.parametrize("verb", ["show", "stats", "export"])
def test_what_is_no_log_gives_one_line(run_mlgo, tmp_path: Path, verb: str) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"\x7fELF\x00\xff")
    code, out, err = run_mlgo("log", verb, path)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1


def test_a_binary_form_does_not_go_to_a_terminal(run_mlgo, log_file: Path) -> None:
    code, _, err = run_mlgo("log", "export", log_file, "--format", "npz")
    assert code == 2
    assert "hint: name a file: -o log.npz" in err


def test_a_failed_export_leaves_no_file(run_mlgo, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"nothing\n")
    assert run_mlgo("log", "export", path, "-o", tmp_path / "x.npz")[0] == 1
    assert not (tmp_path / "x.npz").exists()


def test_a_context_with_a_strange_name_is_shown_in_one_line(run_mlgo, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(write(Header(features=(TensorSpec("a", "int8_t", (1,)),)), [('ü\n"x', 1)]).data)
    _, out, _ = run_mlgo("log", "show", path)
    assert "context 'ü\\n\"x': 1 observations" in out


@pytest.mark.parametrize("verb", ["show", "stats", "export"])
def test_names_that_are_not_unicode_do_no_harm(run_mlgo, tmp_path: Path, verb: str) -> None:
    path = tmp_path / "x.log"
    tensor = b'{"name":"%b","type":"int8_t","port":0,"shape":[1]}'
    path.write_bytes(
        b'{"features":[' + tensor % b"a" + b'],"\\ud800":"\\udfff"}\n{"context":"\\ud800"}\n{"observation":0}\n1\n'
    )
    assert run_mlgo("log", verb, path)[0] == 0
    assert run_mlgo("log", "export", path, "-o", tmp_path / "x.npz")[0] == 0
    assert run_mlgo("log", "export", path, "-o", tmp_path / "x.parquet")[0] == 0
    path.write_bytes(b'{"features":[' + tensor % b"\\udc80" + b"]}\n")
    code, _, err = run_mlgo("log", verb, path)
    assert code == 1
    assert "is not Unicode" in err
