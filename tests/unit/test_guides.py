"""Every block of the README and of docs/guides is run: what a reader copies works.

Blocks of one guide share a temporary folder and, where they are `python`, a namespace. A line of a `console` block that
starts with `$ ` is run by bash, with the lines after it that the command goes on with (a trailing backslash, an open
quote or here-document); other lines are what it prints, `...` standing for any text, within a line or as lines of its
own. A command whose output is not shown may print anything, and every command must succeed unless the block's first
line is `# fails`. Blocks of other languages are for the eye. A guide whose first line is `<!-- full -->` is run by
`make test-full` only, one with `<!-- needs: clang-22 pyarrow -->` where these programs and modules are there.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from conftest import ROOT, require_tool
from pymlgo.toolchain.process import run

GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs/guides").glob("*.md"))]
LIMIT_S = 600


@dataclass
class Block:
    """A fenced block: its language, its text, and the line of the guide where the text starts."""

    language: str
    text: str
    line: int


@dataclass
class Command:
    """A shell command and what it should print; None where the guide does not say."""

    text: str
    expected: list[str] = field(default_factory=list)


def blocks_of(markdown: str) -> list[Block]:
    """The fenced blocks in order; a fence inside a longer fence is text."""
    found, lines = [], markdown.splitlines()
    at = 0
    while at < len(lines):
        fence = re.fullmatch(r"\s*(`{3,})\s*([\w+-]*).*", lines[at])
        at += 1
        if not fence:
            continue
        start = at
        while at < len(lines) and not re.fullmatch(rf"\s*{fence[1]}`*\s*", lines[at]):
            at += 1
        assert at < len(lines), f"the block that starts in line {start} has no end"
        found.append(Block(fence[2], "\n".join(lines[start:at]) + "\n", start + 1))
        at += 1
    return found


def commands_of(text: str) -> list[Command]:
    """The commands of a console block with what follows each."""
    commands: list[Command] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append(Command(line[2:]))
        elif commands and not commands[-1].expected and unfinished(commands[-1].text):
            commands[-1].text += "\n" + line.removeprefix("> ")
        elif commands:
            commands[-1].expected.append(line)
    for command in commands:
        while command.expected and not command.expected[-1].strip():
            command.expected.pop()
    return commands


def unfinished(command: str) -> bool:
    """Whether bash would read another line; it warns of a here-document that has no end."""
    if command.endswith("\\"):
        return True
    said = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True, check=False).stderr
    return "unexpected EOF" in said or "unexpected end of file" in said or "delimited by end-of-file" in said


def matches(expected: list[str], printed: list[str]) -> bool:
    """Whether the printed lines are the expected ones, up to `...` and spaces at line ends."""
    if not expected:
        return not printed
    if expected[0].strip() == "...":
        return any(matches(expected[1:], printed[start:]) for start in range(len(printed) + 1))
    return bool(printed) and line_matches(expected[0], printed[0]) and matches(expected[1:], printed[1:])


def line_matches(expected: str, printed: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, expected.rstrip().split("..."))), printed.rstrip()) is not None


def run_console(block: Block, folder: Path, guide: str) -> None:
    environment = {
        **os.environ,
        "PYTHONUNBUFFERED": "1",  # what a command says on its two streams, in the order in which it says it
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "120",
        "NO_COLOR": "1",
    }
    fails = block.text.startswith("# fails\n")
    for command in commands_of(block.text):
        script = f"exec 2>&1\n{command.text}"
        done = run(["bash", "-euo", "pipefail", "-c", script], limit_s=LIMIT_S, cwd=folder, env=environment)
        printed = done.stdout.decode()
        where = f"{guide}, block of line {block.line}: $ {command.text}\n{printed}"
        assert fails == (done.returncode != 0), f"exit code {done.returncode} of {where}"
        if command.expected:
            assert matches(command.expected, printed.splitlines()), f"expected {command.expected}, printed by {where}"


def run_guide(guide: Path, folder: Path) -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(guide.read_text(encoding="utf-8")):
        if block.language == "console":
            run_console(block, folder, guide.name)
        elif block.language == "python":
            # The blank lines make a traceback name the line of the guide.
            code = compile("\n" * (block.line - 1) + block.text, str(guide), "exec")
            with contextlib.chdir(folder):
                exec(code, namespace)


def require_needs(markdown: str) -> None:
    """Skip, or in CI fail, where a program or module that the guide needs is missing."""
    for name in re.findall(r"\S+", (re.findall(r"^<!-- needs: (.*?) -->", markdown) or [""])[0]):
        if importlib.util.find_spec(name.replace("-", "_")) is None:
            require_tool(name)


def guide_cases() -> list[object]:
    cases: list[object] = []
    for guide in GUIDES:
        full = guide.read_text(encoding="utf-8").startswith("<!-- full")
        cases.append(pytest.param(guide, id=guide.stem, marks=[pytest.mark.full] if full else []))
    return cases


@pytest.mark.parametrize("guide", guide_cases())
def test_a_guide_does_what_it_says(guide: Path, tmp_path: Path) -> None:
    require_needs(guide.read_text(encoding="utf-8"))
    run_guide(guide, tmp_path)


GUIDE = """# A guide

```python
from pathlib import Path
Path("x.txt").write_text("one two\\n")
```

```console
$ cat x.txt
one ...
$ cat <<END
> a
> END
a
$ printf '%s\\n' 1 2 3; \\
> echo end
1
...
end
```

```text
$ false
```

```console
# fails
$ cat missing.txt
cat: ...
```

```python
assert Path("x.txt").read_text() == "one two\\n"
```
"""


def test_the_runner_runs_blocks_in_one_folder_and_one_namespace(tmp_path: Path) -> None:
    guide = tmp_path / "guide.md"
    guide.write_text(GUIDE)
    folder = tmp_path / "folder"
    folder.mkdir()
    run_guide(guide, folder)
    assert [path.name for path in folder.iterdir()] == ["x.txt"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("```console\n$ echo a\nb\n```\n", "expected"),
        ("```console\n$ false\n```\n", "exit code 1"),
        ("```console\n$ false | cat\n```\n", "exit code 1"),
        ("```console\n# fails\n$ true\n```\n", "exit code 0"),
        ("```python\nassert False, 'this'\n```\n", "this"),
        ("```python\n", "has no end"),
    ],
)
def test_the_runner_sees_what_is_wrong(tmp_path: Path, wrong: str, message: str) -> None:
    guide = tmp_path / "guide.md"
    guide.write_text(wrong)
    with pytest.raises(AssertionError, match=message):
        run_guide(guide, tmp_path)


@pytest.mark.parametrize(
    ("expected", "printed", "fits"),
    [
        (["a", "...", "b"], "a\nb\n", True),
        (["a", "...", "b"], "a\n1\n2\nb\n", True),
        (["a", "...", "b"], "a\n1\n2\nc\n", False),
        (["..."], "", True),
        (["...", "b"], "x\ny\nb", True),
        (["a ... c"], "a 1\nc", False),
        (["a (1.5)"], "a (1.5)  \n", True),
        (["a (1.5)"], "a (1x5)\n", False),
    ],
)
def test_three_dots_stand_for_text_or_lines(expected: list[str], printed: str, fits: bool) -> None:
    assert matches(expected, printed.splitlines()) == fits
