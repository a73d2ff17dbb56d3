"""What can be wrong before a cluster is there, and what travels to it; without Ray."""

from __future__ import annotations

import dataclasses
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pymlgo.corpus.description import Module
from pymlgo.errors import ConfigError, MissingDependency, ToolchainError
from pymlgo.policy.shapes import threshold_policy
from pymlgo.rollout import Job, Overrides, PipesBackend, PlainBackend, PluginBackend, RayExecutor, Trajectory
from pymlgo.rollout.parcels import Allowance, HeldModule, ModuleContent, WiredJob, packed, unpacked, without_parts
from pymlgo.rollout.ray_cluster import GREETING, connected
from pymlgo.rollout.relocation import Relocatable
from pymlgo.toolchain.llvm import find_llvm


@pytest.fixture
def stranger() -> Iterator[str]:
    """The address of something that listens and is no cluster."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(len(GREETING), socket.MSG_WAITALL)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield "{}:{}".format(*server.getsockname())
        thread.join()


@pytest.fixture
def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return "{}:{}".format(*server.getsockname())


def test_a_wrong_address_is_one_line(closed_port: str, tmp_path: Path, run_mlgo) -> None:
    pytest.importorskip("ray")
    (tmp_path / "corpus_description.json").write_text('{"modules": []}')
    arguments = ("eval", "default", "--corpus", tmp_path, "--executor", "ray", "--address")
    code, out, err = run_mlgo(*arguments, closed_port)
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        f"error: no Ray cluster at {closed_port}: Connection refused",
        "hint: `ray start --head` starts one and prints its address",
    ]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ray://10.0.0.1:10001", "Ray's client is not supported"),
        ("somewhere", "is no address of a Ray cluster"),
        ("host:name", "is no address of a Ray cluster"),
        ("host:99999", "is no address of a Ray cluster"),
    ],
)
def test_what_is_no_address_is_named(address: str, message: str) -> None:
    pytest.importorskip("ray")
    with pytest.raises(ConfigError, match=message), RayExecutor(address):
        pass


def test_something_else_at_the_address_is_named(stranger: str) -> None:
    pytest.importorskip("ray")
    with pytest.raises(ConfigError, match="something else listens there"), connected(stranger, None):
        pass


def test_an_address_without_a_cluster_is_refused(tmp_path: Path, run_mlgo) -> None:
    (tmp_path / "corpus_description.json").write_text('{"modules": []}')
    code, _, err = run_mlgo("eval", "default", "--corpus", tmp_path, "--address", "auto")
    assert code == 2
    assert "--address names a Ray cluster" in err


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependency) as raised, RayExecutor():
        pass
    assert raised.value.hint == "pip install 'pymlgo[ray]'"


@pytest.mark.llvm
@pytest.mark.parametrize("kind", [PlainBackend, PipesBackend])
def test_a_machine_without_the_compiler_says_so(
    kind: type[PlainBackend | PipesBackend], clang22: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    llvm = find_llvm(clang=clang22)
    carried = Relocatable.of(kind(llvm=llvm))
    assert carried.here() == kind(llvm=llvm)
    moved = dataclasses.replace(llvm, clang=Path("/nowhere/clang"))
    elsewhere = dataclasses.replace(carried, backend=kind(llvm=moved))
    assert carried.compiler == Relocatable.of(elsewhere.here()).compiler  # found by its version, at another place
    monkeypatch.setattr("pymlgo.rollout.relocation.find_llvms", lambda: ())
    with pytest.raises(ToolchainError, match=rf"lacks the clang {llvm.version_text}.*; it has none"):
        elsewhere.here()


@pytest.mark.llvm
def test_another_build_of_the_same_version_is_another_compiler(clang22: Path) -> None:
    carried = dataclasses.replace(Relocatable.of(PlainBackend(llvm=find_llvm(clang=clang22))), compiler="0" * 64)
    with pytest.raises(ToolchainError, match="is another build"):
        carried.here()


@pytest.mark.llvm
def test_a_machine_without_the_compile_server_says_so(clang22: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = PluginBackend(llvm=find_llvm(clang=clang22), plugin=clang22, engine=Path("/nowhere/engine"))
    carried = Relocatable.of(backend)
    monkeypatch.setattr("pymlgo.rollout.relocation.engine_program", lambda _: None)
    with pytest.raises(ToolchainError, match="no compile server"):
        carried.here()


def test_a_job_comes_whole_out_of_its_parcels(tmp_path: Path) -> None:
    bitcode = tmp_path / "m.bc"
    bitcode.write_bytes(b"BC" * 100_000)
    module = Module(name="m", bitcode=bitcode, command=(b"-cc1",), size_bytes=200_000)
    recorded = Trajectory(
        specs=(), features={}, advice=np.ones(1000, np.int64), default=None, overridden=np.zeros(1000, bool)
    )
    policy = threshold_policy()
    job = Job(module=module, policy=policy, overrides=Overrides(advice={1: 0}, recorded=recorded), record=True)
    wired = WiredJob(rest=without_parts(job), module=3, policy=4, recorded=5)
    assert wired.parcels == (3, 4, 5)
    held = {3: unpacked(packed(module)), 4: unpacked(packed(policy)), 5: unpacked(packed(recorded))}
    bitcode.unlink()
    whole = wired.whole(held)
    assert whole.record
    assert whole.module.bitcode.read_bytes() == b"BC" * 100_000
    assert whole.policy is held[4]
    assert whole.overrides is not None
    assert whole.overrides.advice == {1: 0}
    assert whole.overrides.recorded is held[5]


def test_a_held_module_gives_its_memory_back(tmp_path: Path) -> None:
    for file in ("m.bc", "m.thinlto.bc"):
        (tmp_path / file).write_bytes(file.encode())
    paths = {"bitcode": tmp_path / "m.bc", "thinlto_index": tmp_path / "m.thinlto.bc"}
    before = len(list(Path("/proc/self/fd").iterdir()))
    held = HeldModule(ModuleContent.of(Module(name="m", command=(b"-cc1",), size_bytes=4, **paths)))
    assert held.module.thinlto_index is not None
    assert held.module.thinlto_index.read_bytes() == b"m.thinlto.bc"
    held.close()
    held.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_file_that_cannot_be_read_keeps_its_path(tmp_path: Path) -> None:
    module = Module(name="m", bitcode=tmp_path / "m.bc", command=(b"-cc1",), size_bytes=4)
    assert HeldModule(ModuleContent.of(module)).module == module


def test_the_least_recently_used_goes_first() -> None:
    allowance = Allowance(100)
    assert allowance.use({1: 40, 2: 40}) == ([1, 2], [])
    assert allowance.use({1: 40}) == ([], [])
    assert allowance.use({3: 40}) == ([3], [2])
    assert allowance.use({2: 40, 4: 90}) == ([2, 4], [1, 3])  # what one call needs is held, whatever its size
    assert allowance.use({5: 1}) == ([5], [2])
