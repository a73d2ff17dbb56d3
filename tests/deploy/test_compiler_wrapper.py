"""`mlgo clang`: a drop-in that advises where it can and is plain clang where it cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, llvm_with_plugin

from deployed_builds import SOURCE, alien_directory, threshold_directory  # isort: skip

from pymlgo.deploy import launcher
from pymlgo.deploy.command import parse_compile
from pymlgo.deploy.deployment import deploy_to_clang_config
from pymlgo.deploy.never_worse import read_kept
from pymlgo.toolchain.llvm import LLVM


class Wrapper:
    """Runs `mlgo clang` as a program, with a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}

    def __call__(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pymlgo.cli.start", "clang", *words]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300
        )


@pytest.fixture
def wrapper(tmp_path: Path) -> Wrapper:
    (tmp_path / "x.c").write_text(SOURCE)
    return Wrapper(tmp_path)


@pytest.fixture(scope="module")
def llvm() -> LLVM:
    return llvm_with_plugin("clang-22")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return threshold_directory(tmp_path_factory.mktemp("policies") / "policy")


def _plain(llvm: LLVM, folder: Path) -> bytes:
    subprocess.run([llvm.clang, "-Oz", "-c", "x.c", "-o", "plain.o"], check=True, cwd=folder)
    return (folder / "plain.o").read_bytes()


@pytest.mark.llvm
@pytest.mark.spec("deploy.wrapper")
def test_it_compiles_with_the_policy_and_remembers_how(wrapper: Wrapper, llvm: LLVM, policy: Path) -> None:
    words = ("--policy", policy, "--clang", llvm.clang, "--", "-Oz", "-c", "x.c")
    first = wrapper(*words)
    assert (first.returncode, first.stdout, first.stderr) == (0, "", "")
    data = (wrapper.folder / "x.o").read_bytes()
    assert data != _plain(llvm, wrapper.folder)
    (entry,) = [each for each in (wrapper.folder / "cache/pymlgo/wrapper").iterdir() if each.is_file()]
    before = entry.stat().st_mtime_ns
    again = wrapper(*words)
    assert again.returncode == 0
    assert (wrapper.folder / "x.o").read_bytes() == data
    assert entry.stat().st_mtime_ns == before


@pytest.mark.llvm
def test_a_changed_policy_is_noticed(wrapper: Wrapper, llvm: LLVM, tmp_path: Path) -> None:
    policy = threshold_directory(tmp_path / "policy", threshold=40)
    words = ("--policy", policy, "--clang", llvm.clang, "--", "-Oz", "-c", "x.c")
    wrapper(*words)
    more = (wrapper.folder / "x.o").read_bytes()
    threshold_directory(policy, threshold=-10000)
    wrapper(*words)
    assert (wrapper.folder / "x.o").read_bytes() != more


@pytest.mark.llvm
def test_a_deployment_is_a_policy(wrapper: Wrapper, llvm: LLVM, policy: Path) -> None:
    deploy_to_clang_config(wrapper.folder / "d", llvm=llvm, policies=[policy])
    assert wrapper("--policy=d", "--", "-Oz", "-c", "x.c").returncode == 0
    assert (wrapper.folder / "x.o").read_bytes() != _plain(llvm, wrapper.folder)


@pytest.mark.llvm
@pytest.mark.spec("deploy.wrapper-falls-back")
def test_it_is_plain_clang_where_there_is_no_advice(wrapper: Wrapper, llvm: LLVM, tmp_path: Path) -> None:
    for options in (
        (),
        ("--policy", tmp_path / "missing"),
        ("--policy", alien_directory(tmp_path / "alien")),
        ("--overrides", tmp_path / "missing"),
    ):
        done = wrapper(*options, "--clang", llvm.clang, "--", "-Oz", "-c", "x.c")
        assert done.returncode == 0, done.stderr
        assert [line for line in done.stderr.splitlines() if line.startswith("mlgo: compiling without advice: ")]
        assert (wrapper.folder / "x.o").read_bytes() == _plain(llvm, wrapper.folder)


@pytest.mark.llvm
def test_without_a_plugin_the_pipes_serve(wrapper: Wrapper, llvm: LLVM, policy: Path, tmp_path: Path) -> None:
    words = ("--policy", policy, "--clang", llvm.clang, "--", "-Oz", "-c", "x.c")
    wrapper(*words)
    by_plugin = (wrapper.folder / "x.o").read_bytes()
    (tmp_path / "none").mkdir()
    script = (
        "import sys, pymlgo; pymlgo.__path__ = pymlgo.__path__[:1]; from pymlgo.cli.start import main; sys.exit(main())"
    )
    wrapper.environment["XDG_CACHE_HOME"] = str(tmp_path / "other-cache")
    done = subprocess.run(
        [sys.executable, "-c", script, "clang", *words],
        cwd=wrapper.folder,
        env=wrapper.environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (wrapper.folder / "x.o").read_bytes() == by_plugin


@pytest.mark.llvm
def test_errors_are_the_compilers(wrapper: Wrapper, llvm: LLVM, policy: Path) -> None:
    (wrapper.folder / "bad.c").write_text("int x = ;\n")
    for _ in range(2):  # the long way, then the short one
        done = wrapper("--policy", policy, "--clang", llvm.clang, "--", "-Oz", "-c", "bad.c")
        assert done.returncode == 1
        assert done.stderr.count("expected expression") == 1
        assert "mlgo" not in done.stderr


@pytest.mark.llvm
@pytest.mark.spec("deploy.wrapper-falls-back")
def test_a_crash_under_advice_is_compiled_again_without(
    wrapper: Wrapper, llvm: LLVM, policy: Path, tmp_path: Path
) -> None:
    deployment = deploy_to_clang_config(wrapper.folder / "d", llvm=llvm, policies=[policy])
    assert wrapper("--policy=d", "--", "-Oz", "-c", "x.c").returncode == 0
    library = deployment.folder / "inlining.so"
    status = library.stat()
    code = Path(tmp_path / "crash.cpp")
    sys.path.insert(0, str(ROOT / "tests/native"))
    try:
        from bad_policies import SOURCE as LIBRARY
    finally:
        sys.path.pop(0)
    code.write_text(LIBRARY)
    subprocess.run(["g++", "-w", "-shared", "-fPIC", "-DBEFORE=*(volatile int*)0=1", code, "-o", library], check=True)
    entry = next(each for each in (wrapper.folder / "cache/pymlgo/wrapper").iterdir() if each.is_file())
    old, new = f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}", launcher.stamp(str(library))
    entry.write_text(entry.read_text().replace(old, new))
    done = wrapper("--policy=d", "--", "-Oz", "-c", "x.c")
    assert done.returncode == 0, done.stderr
    assert "mlgo: the compiler crashed under advice; compiling again without" in done.stderr
    assert (wrapper.folder / "x.o").read_bytes() == _plain(llvm, wrapper.folder)


@pytest.mark.llvm
@pytest.mark.spec("deploy.never-worse")
def test_never_worse_keeps_the_smaller_object(wrapper: Wrapper, llvm: LLVM, tmp_path: Path) -> None:
    greedy = threshold_directory(tmp_path / "greedy", threshold=400)
    done = wrapper("--policy", greedy, "--clang", llvm.clang, "--never-worse", "--", "-Oz", "-c", "x.c")
    assert done.returncode == 0, done.stderr
    assert "kept the" in done.stderr
    (folder,) = [each for each in (wrapper.folder / "cache/pymlgo/wrapper").iterdir() if each.is_dir()]
    (kept,) = read_kept(folder)
    plain = _plain(llvm, wrapper.folder)
    if kept.kept == "default":
        assert (wrapper.folder / "x.o").read_bytes() == plain
        assert kept.default_text_bytes <= kept.policy_text_bytes
    else:
        assert kept.policy_text_bytes <= kept.default_text_bytes


def test_options_are_split_from_the_compilers_arguments() -> None:
    split = launcher.split_words(["--policy", "p", "--clang=c", "--", "-c", "--", "x.c"])
    assert split == ({"--policy": "p", "--clang": "c"}, ["-c", "--", "x.c"])
    assert launcher.split_words(["--never-worse", "--", "x"]) == ({"--never-worse": ""}, ["x"])
    assert launcher.split_words(["--policy", "p"]) is None
    assert launcher.split_words(["--help"]) is None


def test_the_short_way_imports_almost_nothing() -> None:
    script = "import sys; before = set(sys.modules); import pymlgo.deploy.launcher; print(*set(sys.modules) - before)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", script], capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "src")}
    )
    loaded = set(done.stdout.split())
    assert {"pymlgo", "pymlgo.deploy", "pymlgo.deploy.launcher"} <= loaded
    assert not loaded & {"argparse", "json", "numpy", "pathlib", "re", "subprocess", "typing", "signal"}


@pytest.mark.parametrize(
    ("words", "objects"),
    [
        ("-Oz -c a.c", {"a.c": "a.o"}),
        ("-c a.c b/b.cc", {"a.c": "a.o", "b/b.cc": "b.o"}),
        ("-c a.c -o out/x.obj", {"a.c": "out/x.obj"}),
        ("-I inc -c -MD -MF x.d a.c -oy.o", {"a.c": "y.o"}),
    ],
)
def test_compile_commands(words: str, objects: dict[str, str]) -> None:
    command = parse_compile(words.split())
    assert command is not None
    assert {each.source: each.object for each in command.objects} == objects
    assert not any(each in command.others for each in objects)


@pytest.mark.parametrize("words", ["a.c -o a", "-S a.c", "-c a.s", "-E a.c", "-c a.c b.c -o x.o", "@file", ""])
def test_commands_that_are_something_else(words: str) -> None:
    assert parse_compile(words.split()) is None


def test_the_table_of_what_was_kept(tmp_path: Path, run_mlgo) -> None:
    line = {
        "object": "/x.o",
        "kept": "policy",
        "default_text_bytes": 20,
        "policy_text_bytes": 10,
        "default_berkeley_bytes": 30,
        "policy_berkeley_bytes": 20,
        "reason": "",
    }
    lines = ({**line, "kept": "default"}, line, {**line, "object": "/y.o", "kept": "default"})
    (tmp_path / "kept.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    assert [each.kept for each in read_kept(tmp_path)] == ["policy", "default"]
    code, out, _ = run_mlgo("deploy", "--kept", tmp_path, "--json")
    assert code == 0
    assert json.loads(out)["default_text_bytes"] == 40
    assert json.loads(out)["kept_text_bytes"] == 30
    code, out, _ = run_mlgo("deploy", "--kept", tmp_path)
    assert code == 0
    assert "/y.o" in out
    code, _, err = run_mlgo("deploy", "--kept", tmp_path / "none")
    assert code == 2
    assert "cannot be read" in err
