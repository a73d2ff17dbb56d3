"""What a recorded build runs in place of its compiler: notes the command, adds the flags, becomes clang.

It starts with every compile, so it imports the least it can. Its settings are environment variables.
"""

from __future__ import annotations

import os
import sys

from pymlgo.corpus.driver_line import C_FAMILY, DriverLine, argument_groups, expand_response_files

LOG, CLANG, FLAGS, OBJECTS, INSIDE = (
    "MLGO_RECORD_LOG",
    "MLGO_RECORD_CLANG",
    "MLGO_RECORD_FLAGS",
    "MLGO_RECORD_OBJECTS",
    "MLGO_RECORD_INSIDE",
)
SEPARATOR = "\x1f"
EMBED = ("-Xclang", "-fembed-bitcode=all")

PROBE_STEMS = ("conftest", "CMakeCCompilerId", "CMakeCXXCompilerId", "testCCompiler", "testCXXCompiler", "sanitycheckc")
PROBE_FOLDERS = ("/CMakeFiles/CMakeTmp", "/CMakeFiles/CMakeScratch", "/CMakeFiles/CompilerId", "/meson-private")
"""Where autoconf, CMake and Meson try the compiler; what they compile there is not the project."""


def main(kind: str, arguments: list[str]) -> None:
    """Run clang with `arguments`; `kind` is `cc` or `c++`. Does not return."""
    directory = os.getcwd()
    clang = os.environ[CLANG]
    driver = [clang, "--driver-mode=g++"] if kind == "c++" else [clang]
    line = DriverLine(["", *expand_response_files(arguments, directory)])
    command = [*driver, *arguments]
    is_c = any(language in C_FAMILY for _, language in line.sources)
    if is_c and line.makes_objects and not is_probe(line, directory):
        if line.compiles:
            command = embedding(command, line)
            for source, _, output in line.objects():
                note(directory, source, command, output)
        elif os.environ.get(OBJECTS):
            compile_aside(driver, arguments, line, directory)
    environment = {**os.environ, INSIDE: "1"}
    try:
        os.execve(clang, command, environment)
    except OSError as error:
        sys.stderr.write(f"error: {clang} cannot be started: {error.strerror}\n")
        sys.exit(127)


def embedding(command: list[str], line: DriverLine) -> list[str]:
    """`command` with the recorder's flags, and with the one that embeds bitcode where that makes sense."""
    extra = [each for each in os.environ.get(FLAGS, "").split(SEPARATOR) if each]
    # With -flto the object is bitcode already.
    embed = [] if line.lto or line.embeds_bitcode else EMBED
    return insert_flags(command, [*extra, *embed])


def insert_flags(command: list[str], flags: list[str]) -> list[str]:
    """`command` with `flags` at its end, but before a `--` after which all are inputs."""
    place = command.index("--") if "--" in command else len(command)
    return [*command[:place], *flags, *command[place:]]


def compile_aside(driver: list[str], arguments: list[str], line: DriverLine, directory: str) -> None:
    """Compile the sources of a command that compiles and links at once, whose objects would not stay."""
    flags = [
        word
        for is_input, words in argument_groups(expand_response_files(arguments, directory))
        for word in words
        if not is_input and words[0] not in ("-o", "--output", "-l", "-L") and not words[0].startswith(("-o", "-Wl,"))
    ]
    from hashlib import sha256  # costs a millisecond, which most compiles need not pay

    place = sha256(os.fsencode("\0".join([directory, line.output or "", *arguments]))).hexdigest()[:12]
    folder = os.path.join(os.environ[OBJECTS], place)
    for source, language in line.sources:
        if language in C_FAMILY:
            os.makedirs(folder, exist_ok=True)
            output = os.path.join(folder, os.path.basename(source) + ".o")
            command = embedding([*driver, *flags, "-Qunused-arguments", "-c", source, "-o", output], line)
            if run_quietly(command) == 0:
                note(directory, source, command, output)


def run_quietly(command: list[str]) -> int:
    """The exit code of a command whose output nobody wants: the build's own command says the same again."""
    nothing = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, nothing, stream) for stream in (0, 1, 2)]
    child = os.posix_spawn(command[0], command, {**os.environ, INSIDE: "1"}, file_actions=actions)
    os.close(nothing)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def is_probe(line: DriverLine, directory: str) -> bool:
    """True for the small programs by which build systems find out what the compiler can do."""
    names = [os.path.basename(source) for source, _ in line.sources]
    inside = any(f"{folder}/" in f"{directory}/" for folder in PROBE_FOLDERS)
    return inside or any(name.startswith(PROBE_STEMS) for name in names) or "-" in names


def note(directory: str, source: str, command: list[str], output: str) -> None:
    """Append an entry to the log; one write of a file opened for appending is never torn apart by another."""
    import json

    entry = {"directory": directory, "file": source, "arguments": command, "output": output}
    data = json.dumps(entry).encode() + b"\n"
    log = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        os.write(log, data)
    finally:
        os.close(log)
