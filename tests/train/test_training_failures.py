"""What can go wrong in a run, whatever its algorithm: it is named, and what was whole before stays whole."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from imagined_compiler import ImaginedExecutor, imagined_split
from test_algorithms import new_run, session

from pymlgo import atomic_file
from pymlgo.errors import ConfigError, CorpusError
from pymlgo.policy.directory import load_policy
from pymlgo.rollout import Backend, Job, Outcome, RolloutFailure
from pymlgo.train import evolution, imitation
from pymlgo.train.checkpoint import load_state
from pymlgo.train.hold_out import HoldOut, hold_out
from pymlgo.train.run_directory import EVENTS_FILE, RunDirectory
from pymlgo.train.run_summary import summarize

ES = evolution.Options(strategy="openai", population=4, batch=6)


class Failing(ImaginedExecutor):
    """Every compile fails, or every compile of a training module."""

    def __init__(self, *, spare_validation: bool) -> None:
        super().__init__()
        self.spare_validation = spare_validation

    def run(self, backend: Backend, jobs: Iterable[Job]) -> Iterator[tuple[int, Outcome]]:
        jobs = list(jobs)
        for number, outcome in super().run(backend, jobs):
            name = jobs[number].module.name
            spared = self.spare_validation and name.startswith("c/")
            failure = RolloutFailure(module=name, backend="imagined", reason="crash", detail="it crashed", cpu_s=0.0)
            yield number, outcome if spared else failure


@pytest.mark.parametrize("options", [ES, imitation.Options()], ids=["es", "bc-max"])
@pytest.mark.parametrize("spare_validation", [False, True])
def test_where_all_compiles_fail_the_reason_is_named(
    spare_validation: bool, options: evolution.Options | imitation.Options, tmp_path: Path
) -> None:
    doomed = session(options, new_run(tmp_path), executor=Failing(spare_validation=spare_validation), compiles=200)
    which = "training" if spare_validation else "validation"
    with pytest.raises(CorpusError, match=rf"none of \d+ {which} modules compiled.*crash"):
        doomed.go()


def test_a_disk_that_fills_up_costs_nothing_that_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = session(ES, new_run(tmp_path / "whole"), compiles=200)
    whole.go()
    run, written = new_run(tmp_path / "full"), []

    def fills_up(path: Path, data: bytes, write=atomic_file.write_bytes) -> None:
        written.append(path)
        if path == run.checkpoint and written.count(path) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(atomic_file, "write_bytes", fills_up)
        with pytest.raises(ConfigError, match="No space left on device") as raised:
            session(ES, run, compiles=200).go()
    assert f"--resume {run.path}" in str(raised.value.hint)
    resumed = session(ES, run, compiles=200)
    resumed.restore()
    resumed.go()
    assert load_policy(resumed.output).graph.fingerprint() == load_policy(whole.output).graph.fingerprint()


def test_a_log_of_events_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    (run.path / EVENTS_FILE).symlink_to("/dev/full")
    with pytest.raises(ConfigError, match="No space left on device"):
        session(ES, run, compiles=200).go()


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_algorithms import session
from test_training_failures import ES
from pymlgo.train.run_directory import RunDirectory

replace, seen = Path.replace, []

def killing(self, target):
    seen.append(Path(target).name)
    if seen.count("checkpoint.npz") == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)

Path.replace = killing
session(ES, RunDirectory(Path(sys.argv[2])), compiles=200).go()
"""


def test_sigkill_while_a_checkpoint_is_written_costs_that_round_only(tmp_path: Path) -> None:
    whole = session(ES, new_run(tmp_path / "whole"), compiles=200)
    whole.go()
    run = new_run(tmp_path / "killed")
    done = subprocess.run([sys.executable, "-c", KILLED, Path(__file__).parent, run.path], check=False, timeout=600)
    assert done.returncode == -signal.SIGKILL
    assert load_policy(run.path / "out").problem == "inlining"
    assert len(load_state(run.checkpoint).arrays["losses"]) == 1
    assert summarize(run).state == "unfinished"
    resumed = session(ES, RunDirectory.open(run.path), compiles=200)
    resumed.restore()
    resumed.go()
    assert load_policy(resumed.output).graph.fingerprint() == load_policy(whole.output).graph.fingerprint()
    assert summarize(run).state == "ended"


def test_a_damaged_checkpoint_is_no_traceback(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    session(ES, run, compiles=200).go()
    whole = run.checkpoint.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole[:100] + bytes(60) + whole[160:]):
        run.checkpoint.write_bytes(damaged)
        with pytest.raises(ConfigError, match="checkpoint"):
            session(ES, run, compiles=200).restore()


def test_with_one_program_nothing_is_said_about_others() -> None:
    split = hold_out([each for each in imagined_split().train if each.name.startswith("a/")], 0.25, 1)
    assert not split.by_project
    assert split.validation
    assert isinstance(split, HoldOut)
