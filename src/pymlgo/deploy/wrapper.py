"""`mlgo clang`, the long way: find a clang, deploy the policy into the cache, compile; and what to do if one fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pymlgo.atomic_file import write_bytes
from pymlgo.channel import Advise, host
from pymlgo.deploy import launcher
from pymlgo.deploy.check import check_deployment
from pymlgo.deploy.command import parse_compile
from pymlgo.deploy.deployment import DESCRIPTION_FILE, Deployment, deploy_to_clang_config, read_deployment
from pymlgo.deploy.never_worse import KEPT_FILE, Kept, compile_never_worse, save_kept
from pymlgo.errors import MLGOError, PolicyError, ToolchainError
from pymlgo.policy.directory import load_policy
from pymlgo.problem import problem_named
from pymlgo.toolchain.advisor import advisor_plugin, advisor_plugins
from pymlgo.toolchain.llvm import LLVM, find_llvm, find_llvms
from pymlgo.training_log import Header


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What a compile is to be advised by; nothing at all is allowed.

    Attributes:
        policy: a policy directory, or the folder of a deployment.
        overrides: a file of decisions by key.
        clang: the clang to use.
        key: names the command in the launcher's cache.
    """

    policy: Path | None
    overrides: Path | None
    clang: str | None
    key: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Advice:
        """From the wrapper's options, and PYMLGO_CLANG_POLICY and PYMLGO_CLANG where they say nothing."""
        policy = options.get("--policy") or os.environ.get("PYMLGO_CLANG_POLICY")
        overrides = options.get("--overrides")
        return cls(
            policy=Path(policy) if policy else None,
            overrides=Path(overrides) if overrides else None,
            clang=options.get("--clang") or os.environ.get("PYMLGO_CLANG") or None,
            key=launcher.entry_key(dict(options)),
        )


def clang_with_plugin(clang: str | None) -> LLVM:
    """The named clang, else the newest that there is a plugin for, else the newest.

    Raises:
        ToolchainError: there is no clang, or the named one is none.
    """
    if clang is not None:
        return find_llvm(clang=clang)
    plugins = advisor_plugins()
    return next((each for each in find_llvms() if each.major in plugins), None) or find_llvm()


def compile_advised(advice: Advice, arguments: Sequence[str], *, never_worse: bool = False) -> int:
    """Compile with advice; where that cannot be had, without, and say why in one line. The compiler's exit code.

    Args:
        advice: what by.
        arguments: of clang.
        never_worse: compile without advice too and keep the smaller object; only commands that compile to objects can.

    Raises:
        ToolchainError: there is no clang at all.
    """
    llvm = _clang_of(advice)
    if advice.policy is None and advice.overrides is None:
        return _plain(llvm, arguments, "no policy is named (--policy DIR, or PYMLGO_CLANG_POLICY)")
    try:
        deployment = deployed(advice, llvm)
    except ToolchainError as error:
        return _through_pipes(advice, llvm, arguments, error)
    except (MLGOError, OSError) as error:
        return _plain(llvm, arguments, str(error))
    words = [str(llvm.clang), f"--config={deployment.config}"]
    command = parse_compile(arguments) if never_worse else None
    if command is None:
        if never_worse and "-c" in arguments:
            print("mlgo: --never-worse does not know this form of command; compiling with advice", file=sys.stderr)
        return launcher.run_advised(words, list(arguments))
    code, kept = compile_never_worse(words, llvm.clang, command, arguments)
    for each in kept:
        print(f"mlgo: {each.object}: {_shown(each)}", file=sys.stderr)
    save_kept(deployment.folder, kept)
    return code


def _shown(kept: Kept) -> str:
    if kept.reason:
        return f"kept the default's object: {kept.reason}"
    return f".text {kept.default_text_bytes} by default, {kept.policy_text_bytes} by policy: kept the {kept.kept}'s"


def deployed(advice: Advice, llvm: LLVM) -> Deployment:
    """A deployment that was tried with this clang; remembered for the launcher.

    Raises:
        PolicyError: the policy is none, or does not fit this clang.
        ToolchainError: this clang has no plugin or refuses it.
    """
    if (known := launcher.known_command(advice.key)) is not None and known[0] == str(llvm.clang):
        return read_deployment(Path(known[1].removeprefix("--config=")).parent)
    deployment = _deployment(advice, llvm)
    check = check_deployment(deployment, clang=llvm.clang)
    if not check.compiled or not check.active:
        said = check.explanation or check.message.partition("\n")[0] or "it says nothing"
        raise ToolchainError(f"{llvm.clang} does not take the advisor plugin: {said}")
    if check.fallbacks:
        raise PolicyError(check.fallbacks[0].reason)
    _remember(advice, llvm, deployment, (str(llvm.clang), f"--config={deployment.config}"))
    return deployment


def _clang_of(advice: Advice) -> LLVM:
    if advice.clang is None and advice.policy is not None and (advice.policy / DESCRIPTION_FILE).exists():
        try:
            return find_llvm(clang=read_deployment(advice.policy).clang)
        except MLGOError:
            pass  # said when the deployment is used
    return clang_with_plugin(advice.clang)


def _deployment(advice: Advice, llvm: LLVM) -> Deployment:
    """The deployment that was named, or one in the cache."""
    if advice.policy is not None and (advice.policy / DESCRIPTION_FILE).exists() and advice.overrides is None:
        return read_deployment(advice.policy)
    folder = Path(launcher.entry_file(advice.key) + f".llvm{llvm.major}")
    return deploy_to_clang_config(
        folder,
        llvm=llvm,
        policies=[advice.policy] if advice.policy is not None else [],
        overrides=advice.overrides,
    )


def _remember(advice: Advice, llvm: LLVM, deployment: Deployment, command: Sequence[str]) -> None:
    used = [llvm.clang, llvm.clang.resolve(), advisor_plugin(llvm)]
    used += [each for each in deployment.folder.iterdir() if each.name != KEPT_FILE]
    if advice.policy is not None:
        used += [each for each in _files(advice.policy) if each.name != KEPT_FILE]
    used += [advice.overrides] if advice.overrides is not None else []
    lines = [advice.key]
    lines += [f"stamp {launcher.stamp(str(path))} {path}" for path in map(Path.absolute, used)]
    lines += [f"word {word}" for word in command]
    if any("\n" in line for line in lines):
        return  # a name with a line break takes the long way each time
    text = "\n".join(lines) + "\n"
    write_bytes(Path(launcher.entry_file(advice.key)), os.fsencode(text))


def _files(policy: Path) -> list[Path]:
    return [policy] if policy.is_file() else sorted(policy.iterdir())


def _plain(llvm: LLVM, arguments: Sequence[str], reason: str) -> int:
    """Become the compiler, without advice."""
    print(f"mlgo: compiling without advice: {reason}", file=sys.stderr, flush=True)
    os.execv(llvm.clang, [str(llvm.clang), *arguments])


def _through_pipes(advice: Advice, llvm: LLVM, arguments: Sequence[str], reason: ToolchainError) -> int:
    """The policy answers over the interactive channel, where there is no plugin."""
    if advice.policy is None or not advice.policy.is_dir():
        return _plain(llvm, arguments, str(reason))
    try:
        policy = load_policy(advice.policy)
        problem = problem_named(policy.problem)

        def on_header(header: Header) -> Advise:
            decide = policy.bind(header.features)
            return lambda observation: decide(observation.features)

        done = host(
            [llvm.clang, *arguments],
            on_header=on_header,
            flags=lambda base: problem.serving_flags(llvm, base),
            check_advice=problem.check_advice,
            stdin=None,
            stderr=None,
        )
    except MLGOError as error:
        return _plain(llvm, arguments, str(error))
    return done.returncode
