"""The program behind `FakeCompiler`: plays a script over the channel, byte for byte as clang does.

It is run as a file by a bare interpreter, so it imports nothing but the standard library. As LLVM's runner does, it
opens `<base>.in` first, then `<base>.out`; flushes after the header, each context and each observation; and *spins*
when its advice does not come: an end of file is no error there.

Source: InteractiveModelRunner in llvm/lib/Analysis/InteractiveModelRunner.cpp (LLVM 22).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

_BASE = "interactive-channel-base="


def main(arguments: list[str]) -> int:
    """Play the script named by the first argument; the exit code that it asks for."""
    script = json.loads(Path(arguments[0]).read_text())
    base = next((each.partition(_BASE)[2] for each in arguments if _BASE in each), None)
    os.write(1, bytes.fromhex(script["stdout"]))
    if script["child"]:
        subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"])
    if base is not None:
        play(script, base)
    return int(script["exit_code"])


def play(script: dict[str, Any], base: str) -> None:
    """Talk as the script says, once for each run of it."""
    answers: list[str] = []
    asked = 0
    for _ in range(script["runs"]):
        fail_at(script, "start", asked)
        from_host = os.open(f"{base}.in", os.O_RDONLY)
        to_host = os.open(f"{base}.out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        fail_at(script, "opened", asked, to_host)
        say(script, "header", asked, to_host, bytes.fromhex(script["header"]))
        counts: dict[str, int] = {}
        for context in script["contexts"]:
            say(script, "context", asked, to_host, bytes.fromhex(context["line"]))
            for tensors in context["observations"]:
                number = counts.get(context["name"], 0)
                counts[context["name"]] = number + 1
                write_stderr(script["stderr_bytes"])
                record = b'{"observation":%d}\n%b\n' % (number, bytes.fromhex(tensors))
                say(script, "observation", asked, to_host, record)
                fail_at(script, "question", asked, to_host)
                answers.append(read_advice(from_host, script["advice_bytes"]).hex())
                Path(script["answers"]).write_text(json.dumps(answers))
                asked += 1
        os.close(from_host)
        os.close(to_host)
    fail_at(script, "end", asked)


def say(script: dict[str, Any], moment: str, asked: int, to_host: int, message: bytes) -> None:
    """Write a message, whole or as far as the fault lets it."""
    fault = script["fault"]
    if fault and fault["moment"] == moment and asked >= fault["after"]:
        os.write(to_host, message[: len(message) // 2])
        fail_at(script, moment, asked, to_host)
    written = 0
    while written < len(message):
        written += os.write(to_host, message[written:])


def fail_at(script: dict[str, Any], moment: str, asked: int, to_host: int = -1) -> None:
    """Do what the fault says, if this is its moment."""
    fault = script["fault"]
    if not fault or fault["moment"] != moment or asked < fault["after"]:
        return
    if fault["effect"] == "exit":
        os._exit(script["exit_code"] or 1)
    if fault["effect"] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault["effect"] == "garbage":
        if to_host >= 0:
            os.write(to_host, bytes.fromhex(fault["garbage"]))
        return
    if fault["effect"] == "silence":
        while True:
            time.sleep(3600)
    spin()


def read_advice(from_host: int, size: int) -> bytes:
    """The advice; at an end of file this spins, as LLVM does."""
    advice = b""
    while len(advice) < size:
        advice += os.read(from_host, size - len(advice))
    return advice


def write_stderr(size: int) -> None:
    """Write `size` bytes of warnings."""
    line = b"warning: a fake compiler warns of everything\n"
    while size > 0:
        size -= os.write(2, line)


def spin() -> NoReturn:
    """Use a whole core for ever."""
    while True:
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
