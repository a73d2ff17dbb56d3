"""The short way of `mlgo clang`: from the command line to the compiler without importing anything.

A build starts the wrapper once for each file, so this module uses `os` and `sys` alone. It knows a deployment that
`wrapper.py` made before by an entry in the cache: a text file of the key, the files that it was made from with their
stamps, and the command's first words. Whatever is not as it was then takes the long way.
"""

from __future__ import annotations

import os
import sys

REPORT_VARIABLE = "PYMLGO_REPORT"
CRASH = b'"event":"crash"'
VALUED = ("--policy", "--overrides", "--clang")
SWITCHES = ("--never-worse", "--json")


def launch(words: list[str]) -> int | None:
    """The compiler's exit code for the words after `mlgo clang`; None where the long way has to be taken."""
    split = split_words(words)
    if split is None:
        return None
    options, arguments = split
    if options.keys() & set(SWITCHES):
        return None
    command = known_command(entry_key(options))
    return None if command is None else run_advised(command, arguments)


def split_words(words: list[str]) -> tuple[dict[str, str], list[str]] | None:
    """Options of the wrapper and arguments of the compiler; None where they are not in the short form."""
    options: dict[str, str] = {}
    position = 0
    while position < len(words):
        word = words[position]
        if word == "--":
            return options, words[position + 1 :]
        if word in SWITCHES:
            options[word] = ""
            position += 1
        elif word in VALUED and position + 1 < len(words):
            options[word] = words[position + 1]
            position += 2
        else:
            name, equals, value = word.partition("=")
            if not equals or name not in VALUED:
                return None
            options[name] = value
            position += 1
    return None


def entry_key(options: dict[str, str]) -> str:
    """What names a cached command: the wrapper's options, with paths made absolute."""
    policy = options.get("--policy") or os.environ.get("PYMLGO_CLANG_POLICY", "")
    overrides = options.get("--overrides", "")
    clang = options.get("--clang") or os.environ.get("PYMLGO_CLANG", "")
    paths = [os.path.abspath(each) if each else "" for each in (policy, overrides)]
    # What decides which clang is found, and which plugin.
    found = [os.environ.get(name, "") for name in ("PATH", "PYMLGO_LLVM_DIR", "PYMLGO_PLUGIN_DIR")] if not clang else []
    return "\t".join([*paths, clang, *found])


def entry_file(key: str) -> str:
    """Where the cached command of a key is, or would be."""
    # A hash that needs no import; the file's first line is the key itself, so that a collision is only slow.
    number = 0xCBF29CE484222325
    for byte in os.fsencode(key):
        number = (number ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    root = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(root):
        root = os.path.expanduser("~/.cache")
    return f"{root}/pymlgo/wrapper/{number:016x}"


def stamp(path: str) -> str:
    """What tells one content of a file from another; "" for no file."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def known_command(key: str) -> list[str] | None:
    """The first words of the compiler's command, if every file that they were made from is as it was."""
    try:
        with open(entry_file(key), encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().split("\n")
    except OSError:
        return None
    if lines[0] != key or lines[-1] != "":
        return None
    command: list[str] = []
    for line in lines[1:-1]:
        kind, _, rest = line.partition(" ")
        if kind == "word":
            command.append(rest)
        else:
            expected, _, path = rest.partition(" ")
            if stamp(path) != expected:
                return None
    return command or None


def run_advised(command: list[str], arguments: list[str]) -> int:
    """Run the compiler with advice; should it crash, run it again without, as if we had not been here.

    The report of the plugin tells a crash from a compile error: it lies in memory, and a user who wants it too gets it.
    """
    report = os.memfd_create("mlgo-report", 0)  # inherited, so that the compiler can open it by its number
    wanted = os.environ.get(REPORT_VARIABLE)
    environment = {**os.environ, REPORT_VARIABLE: f"/proc/{os.getpid()}/fd/{report}"}
    code = spawn([*command, *arguments], environment)
    text = os.pread(report, os.fstat(report).st_size, 0)
    if wanted:
        with open(wanted, "ab") as file:
            file.write(text)
    if code == 0 or CRASH not in text:
        return code
    print("mlgo: the compiler crashed under advice; compiling again without", file=sys.stderr, flush=True)
    return os.execvp(command[0], [command[0], *arguments])


def spawn(words: list[str], environment: dict[str, str]) -> int:
    """Run a program to its end, and hand it the signals that are meant to end us; its exit code as a shell gives it."""
    # `signal` dresses this module up in enums, at the price of everything else that is done here.
    import _signal as signal  # type: ignore[import-not-found]

    child = 0

    def forward(number: int, frame: object) -> None:
        if child:
            os.kill(child, number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        child = os.posix_spawnp(words[0], words, environment, setsigdef=list(before))
        _, status = os.waitpid(child, 0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
