"""What each LLVM can do is tried, remembered, and never hangs."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest

from pymlgo.toolchain import capabilities as capabilities_module
from pymlgo.toolchain import channel_probe, experiment, identity, plugin_probe, probes
from pymlgo.toolchain.capabilities import probe
from pymlgo.toolchain.llvm import LLVM, llvm_of
from pymlgo.toolchain.probes import DESCRIPTIONS


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/pymlgo/capabilities"


def available(llvm: LLVM) -> dict[str, bool | None]:
    return {name: each.available for name, each in probe(llvm).capabilities.items()}


@pytest.mark.llvm
@pytest.mark.spec("toolchain.capabilities")
def test_llvm_22_can_do_everything(clang22: Path) -> None:
    found = probe(llvm_of(clang22))
    assert found.version.startswith("22.")
    assert {name for name, each in found.capabilities.items() if each.available} == set(DESCRIPTIONS)
    assert found.can("inliner_channel")
    assert found.capabilities["inliner_channel"].detail == "39 features, advice inlining_decision"
    assert found.capabilities["eviction_channel"].detail == "21 features, advice index_to_evict"
    assert found.capabilities["priority_channel"].detail == "3 features, advice priority"
    assert found.capabilities["plugin_loading"].detail == "plugin API 2"


@pytest.mark.llvm
@pytest.mark.spec("toolchain.capabilities")
def test_llvm_19_lacks_the_embedding_tool_alone(clang19: Path) -> None:
    found = probe(llvm_of(clang19))
    assert {name for name, each in found.capabilities.items() if not each.available} == {"ir2vec_tool"}
    assert found.capabilities["ir2vec_tool"].hint == "use LLVM 22"
    assert found.capabilities["plugin_loading"].detail == "plugin API 1"


@pytest.mark.llvm
@pytest.mark.spec("toolchain.capabilities")
def test_llvm_14_loads_plugins_and_embeds_bitcode_only(clang14: Path) -> None:
    found = probe(llvm_of(clang14))
    assert {name for name, each in found.capabilities.items() if each.available} == {
        "embedded_bitcode",
        "plugin_loading",
    }
    gaps = [each for each in found.capabilities.values() if not each.available]
    assert all(each.available is False and each.hint for each in gaps)
    assert "came with LLVM 17" in str(found.capabilities["inliner_channel"].hint)


@pytest.mark.llvm
def test_an_answer_is_remembered_by_identity(clang22: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = probe(llvm_of(clang22))
    assert len(list(cache.iterdir())) == 1

    def unexpected(llvm: LLVM, folder: Path) -> dict[str, experiment.Capability]:
        raise AssertionError("it was tried again")

    monkeypatch.setattr(capabilities_module, "try_everything", unexpected)
    assert probe(llvm_of(clang22)) == first
    with pytest.raises(AssertionError, match="tried again"):
        probe(llvm_of(clang22), use_cache=False)
    (entry,) = cache.iterdir()
    entry.write_text('{"inliner_channel": 1}')
    with pytest.raises(AssertionError, match="tried again"):
        probe(llvm_of(clang22))


def fake(folder: Path, text: str) -> LLVM:
    path = folder / "clang"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return LLVM(clang=path, version=(22, 1, 0))


def test_a_compiler_that_hangs_is_killed_with_its_children_and_not_remembered(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (experiment, channel_probe, plugin_probe, probes):
        monkeypatch.setattr(module, "LIMIT_S", 0.5)
    monkeypatch.setattr(identity, "WRAPPER_LIMIT_S", 0.5)
    mark = tmp_path / "alive"
    llvm = fake(tmp_path, f"(while :; do sleep 0.1; date >> {mark}; done) & wait")
    started = time.monotonic()
    assert set(available(llvm).values()) == {None}
    assert time.monotonic() - started < 20
    assert not cache.exists()
    size = mark.stat().st_size if mark.exists() else 0
    time.sleep(0.5)
    assert (mark.stat().st_size if mark.exists() else 0) == size, "a child of the compiler lives on"


def test_a_compiler_that_hangs_in_one_experiment_only_spoils_that_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (experiment, channel_probe, plugin_probe, probes):
        monkeypatch.setattr(module, "LIMIT_S", 2.0)
    monkeypatch.setattr(identity, "WRAPPER_LIMIT_S", 2.0)
    script = 'case "$*" in *interactive-channel*) while :; do sleep 1; done;; esac; echo "error: no" >&2; exit 1'
    llvm = fake(tmp_path, f'case "$*" in *calls.c" -o "*calls.o) exit 0;; esac; {script}')
    found = probe(llvm).capabilities
    assert found["inliner_channel"].available is None
    assert "neither a question nor an end" in found["inliner_channel"].detail
    assert found["embedded_bitcode"].available is False
    assert found["embedded_bitcode"].detail == "error: no"
    assert found["plugin_loading"].available is None


def test_a_compiler_that_compiles_nothing_says_why(tmp_path: Path) -> None:
    found = probe(fake(tmp_path, "echo 'x.c:1: error: no headers' >&2; exit 1")).capabilities
    assert set(found) == set(DESCRIPTIONS)
    assert found["eviction_channel"].available is None
    assert found["eviction_channel"].detail == "clang compiles no C: x.c:1: error: no headers"


def test_a_compiler_that_asks_gibberish_is_told(tmp_path: Path) -> None:
    say = r"""printf '[1]\n{"observation":0}\n' > "${word#*=}.out" """
    llvm = fake(tmp_path, f'for word; do case "$word" in -*channel-base=*) {say}; sleep 5;; esac; done')
    found = channel_probe.inliner_channel(llvm, tmp_path)
    assert found.available is False
    assert "in a form that is not known" in found.detail


def test_texts_do_not_name_the_folder_of_the_experiments(clang14: Path) -> None:
    details = [each.detail for each in probe(llvm_of(clang14)).capabilities.values()]
    assert not any("/mlgo-probe-" in detail for detail in details)
    assert any("…/channel" in detail for detail in details)


def test_a_capability_is_a_plain_value() -> None:
    made = experiment.Capability(available=True, detail="x")
    assert dataclasses.asdict(made) == {"available": True, "detail": "x", "hint": None}
