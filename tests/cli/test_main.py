"""The frame of the command line: verbs, exit codes, two lines for an error."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from pymlgo.cli import main as cli
from pymlgo.errors import ConfigError, CorpusError, ToolchainError

Run = Callable[..., tuple[int, str, str]]


def test_no_verb_prints_the_verbs_and_is_a_usage_error(run_mlgo: Run) -> None:
    code, out, _ = run_mlgo()
    assert code == 2
    assert all(verb in out for verb in cli.VERBS)


def test_an_unknown_verb_is_a_usage_error(run_mlgo: Run) -> None:
    code, out, err = run_mlgo("dortor")
    assert (code, out) == (2, "")
    assert "dortor" in err


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_has_help(run_mlgo: Run, verb: str) -> None:
    code, out, _ = run_mlgo(verb, "--help")
    assert code == 0
    assert f"mlgo {verb}" in out


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CorpusError("no modules", hint="build first"), 1),
        (ConfigError("unknown key", key="budgt", hint="did you mean 'budget'?"), 2),
        (ToolchainError("no clang", hint="make set-up"), 3),
    ],
)
def test_our_errors_are_two_lines_and_a_code(capsys: pytest.CaptureFixture[str], error: Exception, code: int) -> None:
    assert isinstance(error, CorpusError | ConfigError | ToolchainError)
    assert cli.report(error) == code
    assert capsys.readouterr().err == f"error: {error}\nhint: {error.hint}\n"


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    line = f"{sys.executable} -m pymlgo.cli.main --help | true"
    result = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert result.stderr == ""


def test_the_completion_script_knows_the_verbs(run_mlgo: Run) -> None:
    pytest.importorskip("shtab")
    code, out, _ = run_mlgo("completion", "bash")
    assert code == 0
    assert all(verb in out for verb in cli.VERBS)
