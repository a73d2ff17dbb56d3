"""From real projects' sources to a smaller build, in one go: `make quickstart`.

Fetches and builds C and C++ projects from Debian's source packages (in a folder of its own; nothing of the system
changes), makes a corpus of them, learns when to inline, measures the policy on two projects that it has not seen, and
rebuilds one of those, file by file, with and without it. Each step is a command that is printed first.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pymlgo.corpus.objects import ObjectSizes, object_sizes

MLGO = Path(sys.executable).parent / "mlgo"
RECIPE = Path(__file__).resolve().parent.parent / "recipes/quickstart.toml"
REBUILT = "snappy"


def main() -> int:
    """Run every step; the exit code of the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, default=Path("build/quickstart"), help="where everything goes")
    parser.add_argument("--budget", default="3m", help="how long to learn")
    options = parser.parse_args()
    folder, policy = options.dir, options.dir / "policy"
    started = time.monotonic()
    try:
        step("1. What can the LLVMs on this machine do?", "doctor")
        step(
            "2. Build real projects and keep their bitcode",
            *(
                "corpus",
                "fetch",
                RECIPE,
                "--output-dir",
                folder / "corpus",
                "--work-dir",
                folder / "work",
                "--keep-sources",
            ),
        )
        step(
            "3. Learn when inlining makes code smaller",
            *("train", "--corpus", folder / "corpus/train", "--budget", options.budget, "--seed", 1),
            *("--runs", folder / "runs", "-o", policy),
        )
        step("4. Measure it on projects that it has not seen", "eval", policy, "--corpus", folder / "corpus/evaluation")
        print(f"\n5. Rebuild {REBUILT}, which it has not seen, file by file\n$ mlgo clang --policy {policy} -- …")
        rebuild(folder / "work/build" / REBUILT, policy)
    except subprocess.CalledProcessError as error:
        print(
            f"quickstart: {' '.join(map(str, error.cmd[:3]))} … failed with exit code {error.returncode}",
            file=sys.stderr,
        )
        return error.returncode
    print(
        f"\nDone in {time.monotonic() - started:.0f} s. To compile with it: mlgo clang --policy {policy} -- -Oz -c x.c"
    )
    return 0


def step(title: str, *arguments: object) -> None:
    """Print a command and run it, with its progress on this terminal."""
    words = [str(each) for each in arguments]
    print(f"\n{title}\n$ mlgo {' '.join(words)}", flush=True)
    subprocess.run([MLGO, *words], check=True)


def rebuild(project: Path, policy: Path) -> None:
    """Compile each source of a built project with plain clang and with the policy; print the sizes side by side."""
    database = json.loads((project / "compile_commands.json").read_text())
    # A configure script's probes were recorded too; their objects are gone.
    entries = [each for each in database if Path(each["directory"], each["output"]).exists()]
    sources = {each["file"] for each in entries}
    before, after = ObjectSizes(text_bytes=0, berkeley_bytes=0), ObjectSizes(text_bytes=0, berkeley_bytes=0)
    print(f"{'source':<34}{'.text':>10}{'with policy':>13}")
    for entry in entries:
        compiler, *words = command_for_one(entry["arguments"], entry["file"], sources)
        plain = compiled([compiler, *words], entry["directory"])
        advised = compiled([MLGO, "clang", "--policy", policy.resolve(), "--", *words], entry["directory"])
        show(Path(entry["file"]).name, plain, advised)
        before, after = added(before, plain), added(after, advised)
    show("all", before, after)
    change = after.berkeley_bytes / before.berkeley_bytes - 1 if before.berkeley_bytes else 0.0
    print(f"code, constants and unwind tables: {before.berkeley_bytes} → {after.berkeley_bytes} bytes ({change:+.2%})")


def command_for_one(arguments: list[str], source: str, sources: set[str]) -> list[str]:
    """The command line for this source alone, without output and without the flags that kept its bitcode."""
    words = [word for word in arguments if word == source or word not in sources]
    for flag in ("-o", "-Xclang"):  # recorded builds end in `-Xclang -fembed-bitcode=all`
        if flag in words:
            at = words.index(flag)
            del words[at : at + 2]
    return words


def compiled(command: list[str | Path], folder: str) -> ObjectSizes:
    """The sizes of the object that a command makes."""
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch, "object.o")
        subprocess.run([*command, "-o", output], cwd=folder, check=True)
        return object_sizes(output.read_bytes())


def added(left: ObjectSizes, right: ObjectSizes) -> ObjectSizes:
    """The sum of two objects' sizes."""
    return ObjectSizes(
        text_bytes=left.text_bytes + right.text_bytes, berkeley_bytes=left.berkeley_bytes + right.berkeley_bytes
    )


def show(name: str, before: ObjectSizes, after: ObjectSizes) -> None:
    """One line of the table."""
    change = after.text_bytes / before.text_bytes - 1 if before.text_bytes else 0.0
    print(f"{name:<34}{before.text_bytes:>10}{after.text_bytes:>13}{change:>+9.2%}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
