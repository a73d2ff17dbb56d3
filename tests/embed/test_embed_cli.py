"""`mlgo embed`, `scripts/llvm-ir2vec` and the interfaces of other packages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from embed_oracle import C_SOURCE, CPP_SOURCE, HAND_MADE, compiled, ir_oracle, needs_core, random_vocabulary, same_bits

from conftest import ROOT, require_tool
from pymlgo.embed import Vocabulary, embed, ir2vec, read_ir
from pymlgo.embed.embeddings import Kind, Level, Precision
from pymlgo.embed.tool import IR2VecTool
from pymlgo.errors import CorpusError, SpecError

pytestmark = [pytest.mark.llvm, needs_core]


@pytest.fixture(scope="module")
def folder(clang22: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vocabulary `v.json`, modules `c.bc` and `hand.ll`, and a corpus of three modules, one of them damaged."""
    folder = tmp_path_factory.mktemp("cli")
    random_vocabulary(folder / "v.json", dimension=5)
    compiled(clang22, C_SOURCE, folder / "c.bc", "-O1")
    (folder / "hand.ll").write_text(HAND_MADE)
    names = ("one/c.o", "two/cpp.o", "two/bad.o")
    for name in names:
        path = folder / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(path.name + ".cmd").write_bytes(b"-cc1\0-triple\0x86_64-pc-linux-gnu\0-O2")
    compiled(clang22, C_SOURCE, folder / "corpus/one/c.o.bc", "-O1")
    compiled(clang22, CPP_SOURCE, folder / "corpus/two/cpp.o.bc", "-O1", "c++")
    for each in (folder / "corpus").rglob("*.cpp"):
        each.unlink()
    (folder / "corpus/two/bad.o.bc").write_bytes(b"BC\xc0\xde damaged")
    (folder / "corpus/corpus_description.json").write_text(json.dumps({"has_thinlto": False, "modules": list(names)}))
    return folder


@pytest.mark.parametrize("kind", ["symbolic", "flow-aware"])
@pytest.mark.parametrize("level", ["function", "block", "instruction"])
def test_ir_writes_llvms_bits_and_an_index(run_mlgo, folder: Path, tmp_path: Path, kind: str, level: str) -> None:
    out = tmp_path / "out.npz"
    code, stdout, stderr = run_mlgo(
        "embed", "ir", folder / "c.bc", "--vocabulary", folder / "v.json", "--level", level, "--kind", kind, "-o", out
    )
    assert (code, stdout) == (0, "")
    assert "vectors of 5 numbers" in stderr
    with np.load(out) as found:
        assert found["embeddings"].dtype == np.float64
        assert same_bits(found["embeddings"], ir_oracle(folder / "v.json", [folder / "c.bc"])[0][kind, level])
        assert {len(found[name]) for name in ("function", "block", "instruction")} == {len(found["embeddings"])}
        assert found["function"][0] == "classify"


@pytest.mark.parametrize("level", ["loop", "region", "module"])
def test_ir_knows_our_levels(run_mlgo, folder: Path, tmp_path: Path, level: str) -> None:
    out = tmp_path / "out.npz"
    arguments = ["--kind", "flow-normalized", "--level", level, "--dtype", "float32", "-o", out]
    assert run_mlgo("embed", "ir", folder / "c.bc", *arguments)[0] == 0
    with np.load(out) as found:
        assert found["embeddings"].dtype == np.float32
        assert found["embeddings"].shape[1] == 75  # the package's own vocabulary
        assert len(found["embeddings"])


def test_mir_takes_ir_and_mir(run_mlgo, folder: Path, tmp_path: Path) -> None:
    llc = require_tool("llc-22")
    subprocess.run([llc, "-stop-after=finalize-isel", folder / "c.bc", "-o", tmp_path / "c.mir"], check=True)
    for number, source in enumerate((folder / "c.bc", tmp_path / "c.mir")):
        out = tmp_path / f"{number}.npz"
        assert run_mlgo("embed", "mir", source, "--level", "instruction", "-o", out)[0] == 0
    with np.load(tmp_path / "0.npz") as ir, np.load(tmp_path / "1.npz") as mir:
        assert same_bits(ir["embeddings"], mir["embeddings"])
        assert ir["function"].tolist() == mir["function"].tolist()


def test_a_corpus_goes_into_one_file_and_failures_are_counted(run_mlgo, folder: Path, tmp_path: Path) -> None:
    for name in ("out.npz", "out.parquet"):
        code, stdout, stderr = run_mlgo(
            "embed",
            "ir",
            folder / "corpus",
            "--vocabulary",
            folder / "v.json",
            "-o",
            tmp_path / name,
            "-j",
            2,
            "--json",
        )
        assert code == 1
        assert "failed: two/bad.o: " in stderr
        about = json.loads(stdout)
        assert (about["schema"], about["modules"], len(about["failures"])) == ("pymlgo/embed-1", 2, 1)
    with np.load(tmp_path / "out.npz") as found:
        modules, functions, vectors = found["module"], found["function"], found["embeddings"]
    assert sorted(set(modules.tolist())) == ["one/c.o", "two/cpp.o"]
    one = embed(read_ir(folder / "c.bc"), Vocabulary.load(folder / "v.json"))
    assert same_bits(vectors[modules == "one/c.o"], one.vectors)
    parquet = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "out.parquet").to_pydict()
    assert parquet["function"] == functions.tolist()
    assert parquet["embeddings"] == vectors.tolist()


PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.parametrize("verb", ["ir", pytest.param("mir", marks=pytest.mark.full)])
def test_memory_grows_with_the_largest_module_and_not_with_their_number(tmp_path: Path, verb: str) -> None:
    """8,000 instructions a module are 5 MB of vectors: sixteen more of them would show."""
    adds = "\n".join(f"  %v{number} = add i32 %v{number - 1}, %x" for number in range(1, 100))
    bodies = (f"define i32 @f{name}(i32 %x, i32 %v0) {{\n{adds}\n  ret i32 %v99\n}}\n" for name in range(80))
    (tmp_path / "m.ll").write_text('target triple = "x86_64-unknown-linux-gnu"\n' + "".join(bodies))
    command = [sys.executable, "-m", "pymlgo.cli.main", "embed", verb, "--level=instruction", "-j1"]
    few, many = (
        int(subprocess.check_output([sys.executable, "-c", PEAK, *command, *[tmp_path / "m.ll"] * count, "-o", out]))
        for count, out in ((8, tmp_path / "few.npz"), (24, tmp_path / "many.npz"))
    )
    assert many - few < 20_000, f"{few} KiB for 8 modules, {many} KiB for 24"


def test_bad_input_is_two_lines_and_an_exit_code(run_mlgo, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    out.write_bytes(b"kept")
    for arguments, message in (
        ([folder / "gone.bc", "-o", out], "error: .*gone.bc: No such file"),
        ([folder / "c.bc", "--vocabulary", folder / "c.bc", "-o", out], "error: .*UTF-8"),
        ([folder / "corpus/two/bad.o.bc", "-o", out], "error: .*bad.o.bc"),
        ([folder, "-o", out], "error: "),
    ):
        code, stdout, stderr = run_mlgo("embed", "ir", *arguments)
        assert (code, stdout) == (1, "")
        assert re.match(message, stderr)
        assert "Traceback" not in stderr
    assert out.read_bytes() == b"kept"
    assert run_mlgo("embed", "ir", folder / "c.bc", "-o", tmp_path / "out.csv")[0] == 1


def test_overflow_is_reported(run_mlgo, tmp_path: Path) -> None:
    chain = "".join(f" %x{n} = add i32 %x{n - 1}, %x{n - 1}\n" for n in range(1, 1200))
    (tmp_path / "m.ll").write_text(f"define i32 @f(i32 %x0) {{\n{chain} ret i32 %x1199\n}}\n")
    _, _, stderr = run_mlgo("embed", "ir", tmp_path / "m.ll", "--kind", "flow-aware", "-o", tmp_path / "o.npz")
    assert "warning: 1 vectors overflow" in stderr
    assert "hint: --kind flow-normalized" in stderr


@pytest.mark.spec("ir2vec.tool")
@pytest.mark.parametrize("level", ["function", "block", "instruction"])
def test_through_the_tool_there_are_two_decimals(run_mlgo, folder: Path, tmp_path: Path, level: str) -> None:
    found = IR2VecTool.find().embed(folder / "c.bc", folder / "v.json", level=Level(level), kind=Kind.FLOW_AWARE)
    exact = embed(read_ir(folder / "c.bc"), Vocabulary.load(folder / "v.json"), level=level, kind="flow-aware")
    assert found.precision == Precision.TWO_DECIMALS
    np.testing.assert_allclose(found.vectors, exact.vectors, atol=0.00501)
    assert found.names == exact.names
    code, _, stderr = run_mlgo(
        "embed", "ir", folder / "c.bc", "--vocabulary", folder / "v.json", "--level", level, "--through-tool",
        "-o", tmp_path / "o.npz",
    )  # fmt: skip
    assert code == 0
    assert "which prints two decimals" in stderr


def test_without_the_core_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from pymlgo.embed import core
    from pymlgo.errors import ToolchainError

    monkeypatch.setitem(sys.modules, "pymlgo._native", None)
    monkeypatch.delattr("pymlgo._native", raising=False)
    core.core.cache_clear()
    try:
        with pytest.raises(ToolchainError, match="native core is not there") as caught:
            read_ir(b"")
        assert "llvm-22-dev" in str(caught.value.hint)
        assert not core.has_core()
    finally:
        core.core.cache_clear()


def test_triplets_and_entities_print_what_the_tool_prints(run_mlgo, folder: Path) -> None:
    tool = require_tool("llvm-ir2vec-22")
    for verb in ("triplets", "entities"):
        printed = subprocess.run(
            [tool, verb, "--mode=llvm", folder / "c.bc"], capture_output=True, text=True, check=True
        )
        code, stdout, _ = run_mlgo("embed", verb, folder / "c.bc", "--mode", "llvm")
        assert (code, stdout) == (0, printed.stdout)


def test_inspect_tells_what_is_absent(run_mlgo, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "v.json").write_text(
        '{"Opcodes": {"Add": [1]}, "Types": {"VoidTy": [1]}, "Arguments": {"Pointr": [1]}}'
    )
    code, stdout, _ = run_mlgo("embed", "inspect", tmp_path / "v.json", "--corpus", folder / "corpus", "--json")
    assert code == 0
    about = json.loads(stdout)
    assert about["unknown"] == ["Arguments/Pointr"]
    assert "Load" in about["absent"]
    assert about["coverage"]["missing"][0]["entity"] in {"Variable", "Pointer", "Constant", "IntegerTy"}
    assert [each["name"] for each in about["failures"]] == ["two/bad.o"]
    _, stdout, _ = run_mlgo("embed", "inspect", "--shipped")
    assert all(Path(line.split("\t")[1]).is_file() for line in stdout.splitlines())
    _, stdout, _ = run_mlgo("embed", "inspect", tmp_path / "v.json")
    assert "ignored by LLVM: Arguments/Pointr" in stdout


def test_train_writes_a_vocabulary(run_mlgo, folder: Path, tmp_path: Path) -> None:
    arguments = [
        "--epochs",
        4,
        "--dimension",
        6,
        "--seed",
        3,
        "--checkpoint",
        tmp_path / "run.npz",
        "-o",
        tmp_path / "t.json",
    ]
    code, stdout, stderr = run_mlgo("embed", "train", folder / "c.bc", folder / "hand.ll", *arguments, "--json")
    assert code == 0, stderr
    assert json.loads(stdout)["quality"]["hit_at_10"] > 0
    assert Vocabulary.load(tmp_path / "t.json").dimension == 6
    assert run_mlgo("embed", "triplets", folder / "corpus", "--openke", tmp_path / "openke", "--predicates")[0] == 1
    assert (tmp_path / "openke/train2id.txt").is_file()


def test_search_finds_the_twin_of_a_function(run_mlgo, folder: Path, tmp_path: Path) -> None:
    twin = C_SOURCE.replace("bits(", "stib(")
    compiled(require_tool("clang-22"), twin, tmp_path / "twin.bc", "-O1")
    code, stdout, _ = run_mlgo(
        "embed", "search", "bits", "--corpus", tmp_path / "twin.bc", "--corpus", folder / "c.bc", "--json"
    )
    assert code == 0
    best = json.loads(stdout)["matches"][0]
    assert best["place"]["function"] == "stib"
    assert best["cosine"] == pytest.approx(1.0)
    code, _, stderr = run_mlgo("embed", "search", "bitz", "--corpus", folder / "c.bc")
    assert code == 1
    assert "hint: did you mean bits" in stderr
    code, _, stderr = run_mlgo("embed", "search", "mix", "--corpus", folder / "c.bc", "--corpus", tmp_path / "twin.bc")
    assert "2 functions are called 'mix'" in stderr


def test_plot_draws_a_map(run_mlgo, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    code, _, stderr = run_mlgo("embed", "plot", folder / "corpus", "-o", tmp_path / "map.svg")
    assert code == 1  # one module of the corpus is damaged
    assert "failed: two/bad.o" in stderr
    assert (tmp_path / "map.svg").read_text().count("<use") > 5


def llvm_ir2vec(*arguments: str | Path, input: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, ROOT / "scripts/llvm-ir2vec", *arguments]
    return subprocess.run(command, capture_output=True, check=False, input=input)


@pytest.mark.spec("ir2vec.tool")
@pytest.mark.parametrize(
    "arguments",
    [
        ["triplets"],
        ["triplets", "--mode=llvm"],
        ["entities"],
        ["embeddings", "--ir2vec-vocab-path=v.json"],
        ["embeddings", "--ir2vec-vocab-path=v.json", "--level=bb", "--ir2vec-kind=flow-aware"],
        ["embeddings", "--ir2vec-vocab-path=v.json", "--level=inst", "--function=order"],
        [
            "embeddings",
            "--ir2vec-vocab-path=v.json",
            "--function=order",
            "--ir2vec-opc-weight=3",
            "--ir2vec-arg-weight=-1",
        ],
        ["embeddings", "--ir2vec-vocab-path=v.json", "--function=outside"],
    ],
)
def test_the_script_prints_what_the_tool_prints(folder: Path, arguments: list[str]) -> None:
    tool = require_tool("llvm-ir2vec-22")
    filled = [each.replace("v.json", str(folder / "v.json")) for each in arguments]
    expected = subprocess.run([tool, *filled, folder / "hand.ll"], capture_output=True, check=True).stdout
    assert llvm_ir2vec(*filled, folder / "hand.ll").stdout == expected


def test_the_script_reads_stdin_and_writes_files_and_fails_like_the_tool(folder: Path, tmp_path: Path) -> None:
    text = (folder / "hand.ll").read_bytes()
    assert llvm_ir2vec("triplets", "-", "-o", str(tmp_path / "t"), input=text).returncode == 0
    assert (tmp_path / "t").read_bytes() == llvm_ir2vec("triplets", folder / "hand.ll").stdout
    for arguments, message in (
        (["embeddings"], b"error: IR2Vec vocabulary file path not specified; You may need to set it"),
        (["embeddings", f"--ir2vec-vocab-path={folder / 'v.json'}", "--function=zz"], b"Function 'zz' not found"),
    ):
        refused = llvm_ir2vec(*arguments, folder / "hand.ll")
        assert refused.returncode == 1
        assert message in refused.stderr


def test_programs_for_the_other_packages_run(folder: Path, tmp_path: Path) -> None:
    o = ir2vec.initEmbedding(str(folder / "corpus/two/cpp.o.bc"), "fa", "f", tmp_path / "out.txt")
    functions = ir2vec.getFunctionVectors(o)
    guarded = functions["guarded(Base&, int)"]
    assert guarded["actualName"] == "_Z7guardedR4Basei"
    assert len(guarded["vector"]) == 75
    assert list(ir2vec.getFunctionVectors(o, "use")) == ["use(int)"]
    assert np.allclose(np.sum([each["vector"] for each in functions.values()], axis=0), ir2vec.getProgramVector(o))
    assert len(ir2vec.getInstructionVectors(o)) == o.module.walk.instructions
    assert (tmp_path / "out.txt").read_text().count("\n") == len(functions)
    assert ir2vec.getVersion()

    tool = ir2vec.initEmbedding(filename=folder / "hand.ll", mode="sym", vocab=ir2vec.loadVocab(folder / "v.json"))
    assert tool.getFuncNames() == ["order", "empty", "loop"]
    assert same_bits(tool.getFuncEmbMap()["loop"], tool.getFuncEmb("loop"))
    assert list(tool.getBBEmbMap("loop")) == ["#0", "#1", "#2"]
    assert len(tool.getInstEmbMap("loop")) == 10
    with pytest.raises(CorpusError, match="not found"):
        tool.getFuncEmb("nope")
    with pytest.raises(SpecError, match="mode sym or fa"):
        ir2vec.initEmbedding(folder / "hand.ll", "paper")
