"""`mlgo clang`: a drop-in that advises where it can and is plain clang where it cannot."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import ROOT, llvm_with_plugin

from deployed_builds import SOURCE, alien_directory, threshold_directory  # isort: skip

from pymlgo.deploy.command import parse_compile
from pymlgo.deploy.deployment import deploy_to_clang_config
from pymlgo.deploy.known_command import entry_file, entry_key, known_command, launcher_program, remember, stamp
from pymlgo.deploy.never_worse import read_kept
from pymlgo.toolchain.llvm import LLVM


class Wrapper:
    """Runs `mlgo clang` as a program, with a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}

    def __call__(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [Path(sys.executable).with_name("mlgo"), "clang", *words]
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
        ("--policy", tmp_path / "missing"),
        ("--policy", alien_directory(tmp_path / "alien")),
        ("--overrides", tmp_path / "missing"),
    ):
        done = wrapper(*options, "--clang", llvm.clang, "--", "-Oz", "-c", "x.c")
        assert done.returncode == 0, done.stderr
        assert [line for line in done.stderr.splitlines() if line.startswith("mlgo: compiling without advice: ")]
        assert (wrapper.folder / "x.o").read_bytes() == _plain(llvm, wrapper.folder)


@pytest.mark.llvm
@pytest.mark.spec("deploy.wrapper-falls-back")
def test_no_policy_is_named_and_none_is_for_the_level(wrapper: Wrapper, llvm: LLVM) -> None:
    for _ in range(2):  # the long way, then the short one
        done = wrapper("--clang", llvm.clang, "--", "-O1", "-c", "x.c")
        assert done.returncode == 0
        assert done.stderr.startswith("mlgo: compiling without advice: no policy is named")
        assert (wrapper.folder / "x.o").exists()


@pytest.mark.llvm
def test_without_a_plugin_the_pipes_serve(wrapper: Wrapper, llvm: LLVM, policy: Path, tmp_path: Path) -> None:
    words = ("--policy", policy, "--clang", llvm.clang, "--", "-Oz", "-c", "x.c")
    wrapper(*words)
    by_plugin = (wrapper.folder / "x.o").read_bytes()
    (tmp_path / "none").mkdir()
    script = (
        "import sys, pymlgo; pymlgo.__path__ = pymlgo.__path__[:1]; from pymlgo.cli.main import main; sys.exit(main())"
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
    old, new = f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}", stamp(library)
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


# --- the program `mlgo` -----------------------------------------------------------------------------------------

SHOW = """#!/bin/sh
echo "$@"
"""


@pytest.fixture
def show(tmp_path: Path) -> Path:
    """A compiler that prints its arguments."""
    program = tmp_path / "show"
    program.write_text(SHOW)
    program.chmod(0o755)
    return program


@pytest.fixture
def cache(wrapper: Wrapper, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wrapper's cache, here too; none of the variables that name a command is set."""
    monkeypatch.setenv("XDG_CACHE_HOME", wrapper.environment["XDG_CACHE_HOME"])
    for name in ("PYMLGO_CLANG_POLICY", "PYMLGO_CLANG"):
        monkeypatch.delenv(name, raising=False)
        wrapper.environment.pop(name, None)
    monkeypatch.chdir(wrapper.folder)
    return Path(wrapper.environment["XDG_CACHE_HOME"])


@pytest.mark.parametrize(
    ("words", "policy", "overrides"),
    [
        (["--policy", "p", "--clang=c"], "p", ""),
        (["--policy=/no/where", "--clang", "c"], "/no/where", ""),
        (["--overrides", "a name", "--clang=c"], "", "a name"),
        (["--policy", "späße", "--overrides=o", "--clang=c"], "späße", "o"),
        (["--clang=c"], "", ""),
    ],
)
def test_python_and_the_program_name_a_command_alike(
    wrapper: Wrapper, show: Path, cache: Path, words: list[str], policy: str, overrides: str
) -> None:
    (wrapper.folder / "p").mkdir()
    (wrapper.folder / "a name").touch()
    arguments = ["-O1", "--", "-Oz", "x y.c"]
    key = entry_key(policy=policy, overrides=overrides, clang="c", arguments=arguments)
    remember(key, [show], [str(show), "--config=d/mlgo.cfg"])
    assert known_command(key) == [str(show), "--config=d/mlgo.cfg"]
    done = wrapper(*words, "--", *arguments)
    assert (done.returncode, done.stdout) == (0, "--config=d/mlgo.cfg -O1 -- -Oz x y.c\n")
    show.write_text(SHOW + "# changed\n")
    assert known_command(key) == []
    assert "no program 'c'" in wrapper(*words, "--", *arguments).stderr  # Python looks for it


def test_a_damaged_entry_is_no_entry(wrapper: Wrapper, show: Path, cache: Path) -> None:
    key = entry_key(policy="p", overrides="", clang="c", arguments=[])
    remember(key, [], [str(show)])
    whole = entry_file(key).read_bytes()
    for damaged in (b"", whole[:-1], whole[1:], whole + b"nonsense\n", key.encode() + b"\n", whole + b"stamp 1 /\n"):
        entry_file(key).write_bytes(damaged)
        done = wrapper("--policy=p", "--clang=c", "--", "-c", "x.c")
        assert (done.returncode, done.stdout) == (3, ""), damaged


def test_where_nothing_advises_python_is_asked_once(wrapper: Wrapper, show: Path, cache: Path) -> None:
    key = entry_key(policy="", overrides="", clang="c", arguments=["-O2"])
    remember(key, [show], [str(show)], say="mlgo: nothing")
    done = wrapper("--clang=c", "--", "-O2", "x.c")
    assert (done.returncode, done.stdout, done.stderr) == (0, "-O2 x.c\n", "mlgo: nothing\n")


@pytest.mark.parametrize("code", [0, 1, 77])
def test_the_exit_code_is_the_compilers(wrapper: Wrapper, tmp_path: Path, code: int) -> None:
    assert subprocess.run([launcher_program(), "--advised", "sh", "-c", "--", f"exit {code}"]).returncode == code


def test_a_signal_that_ends_the_wrapper_ends_the_compiler(tmp_path: Path) -> None:
    script = f"trap 'touch {tmp_path}/told; exit 9' TERM; touch {tmp_path}/started; while :; do sleep 0.01; done"
    with subprocess.Popen([launcher_program(), "--advised", "sh", "-c", "--", script]) as running:
        while not (tmp_path / "started").exists():
            time.sleep(0.01)
        running.terminate()
        assert running.wait(timeout=30) == 9
    assert (tmp_path / "told").exists()


def test_a_compiler_that_is_gone_is_told(tmp_path: Path) -> None:
    done = subprocess.run(
        [launcher_program(), "--advised", tmp_path / "gone", "--", "-c"], capture_output=True, text=True
    )
    assert done.returncode == 127
    assert done.stderr == f"error: {tmp_path}/gone cannot be started: No such file or directory\n"


@pytest.mark.spec("deploy.wrapper")
def test_what_the_wrapper_adds_to_a_compile(wrapper: Wrapper, cache: Path) -> None:
    """CPU of `mlgo clang` before its compiler, which is /bin/true here; its own children are not counted."""
    key = entry_key(policy="p", overrides="", clang="c", arguments=[])
    remember(key, [Path("/bin/true"), launcher_program()], ["/bin/true"])
    used = []
    for _ in range(10):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert wrapper("--policy=p", "--clang=c", "--", "-c", "x.c").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    assert statistics.median(used) <= 30, f"CPU in ms: {used}"


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
