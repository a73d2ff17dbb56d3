"""Compiler and host share a core for the time of a compile, and only for that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fake_inliner import host_fake, inliner

from pymlgo.channel.pinning import Core, current_core, pinned
from pymlgo.errors import ChannelError
from pymlgo.toolchain.process import run

CORES = sorted(os.sched_getaffinity(0))


def test_the_current_core_is_one_that_we_may_use() -> None:
    assert current_core() in CORES


@pytest.mark.parametrize("core", [None, "current", CORES[0], CORES[-1]])
def test_host_and_compiler_are_where_they_should_be(tmp_path: Path, core: Core) -> None:
    seen: list[set[int]] = []
    host_fake(inliner(), tmp_path, lambda _: seen.append(os.sched_getaffinity(0)) or 0, core=core)
    if core is None:
        assert seen[0] == set(CORES)
    else:
        assert len(seen[0]) == 1
        assert core in ("current", *seen[0])
    assert os.sched_getaffinity(0) == set(CORES)


def test_children_inherit_the_core() -> None:
    with pinned(CORES[-1]):
        allowed = run(["grep", "Cpus_allowed_list", "/proc/self/status"], limit_s=10).stdout
    assert allowed.split()[1] == str(CORES[-1]).encode()


def test_the_thread_is_free_again_after_an_error() -> None:
    with pytest.raises(RuntimeError), pinned(CORES[0]):
        raise RuntimeError
    assert os.sched_getaffinity(0) == set(CORES)


def test_a_core_that_is_not_ours_is_refused() -> None:
    with pytest.raises(ChannelError, match="core 4095 is not open to this process"), pinned(4095):
        pass
