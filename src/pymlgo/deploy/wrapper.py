"""`mlgo clang`, the long way: find a clang, deploy the policy into the cache, compile; and what to do if one fails."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pymlgo.channel import Advise, host
from pymlgo.deploy.check import check_deployment
from pymlgo.deploy.command import parse_compile
from pymlgo.deploy.deployment import (
    DESCRIPTION_FILE,
    Deployment,
    deploy_to_clang_config,
    read_deployment,
    require_shared_llvm,
)
from pymlgo.deploy.known_command import entry_file, entry_key, known_command, launcher_program, remember
from pymlgo.deploy.never_worse import KEPT_FILE, Kept, compile_never_worse, save_kept
from pymlgo.errors import MLGOError, PolicyError, ToolchainError
from pymlgo.policy.directory import load_policy
from pymlgo.policy.shipped import default_policy, find_policy
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
    def of(
        cls,
        arguments: Sequence[str],
        *,
        policy: str | None = None,
        overrides: str | None = None,
        clang: str | None = None,
    ) -> Advice:
        """From the wrapper's options, PYMLGO_CLANG_POLICY and PYMLGO_CLANG where they say nothing, and the package.

        Where nothing at all is named, this package's policy for the optimization level in `arguments` advises.
        """
        policy = policy or os.environ.get("PYMLGO_CLANG_POLICY", "")
        clang = clang or os.environ.get("PYMLGO_CLANG", "")
        overrides = overrides or ""
        key = entry_key(policy=policy, overrides=overrides, clang=clang, arguments=arguments)
        named = _found(policy) if policy else None
        return cls(
            policy=named or (None if overrides else default_policy(arguments)),
            overrides=Path(overrides) if overrides else None,
            clang=clang or None,
            key=key,
        )


def _found(policy: str) -> Path:
    try:
        return find_policy(policy)
    except PolicyError:
        return Path(policy)  # what is not there is told when it is used


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
        return _without_policy(advice, llvm, arguments)
    try:
        deployment, program = deployed(advice, llvm), launcher_program()
    except ToolchainError as error:
        return _through_pipes(advice, llvm, arguments, error)
    except (MLGOError, OSError) as error:
        return _plain(llvm, arguments, str(error))
    words = [str(llvm.clang), f"--config={deployment.config}"]
    command = parse_compile(arguments) if never_worse else None
    if command is None:
        if never_worse and "-c" in arguments:
            print("mlgo: --never-worse does not know this form of command; compiling with advice", file=sys.stderr)
        sys.stderr.flush()
        os.execv(program, [str(program), "--advised", *words, "--", *arguments])
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
    if (known := known_command(advice.key)) and known[0] == str(llvm.clang):
        return read_deployment(Path(known[1].removeprefix("--config=")).parent)
    require_shared_llvm(llvm)
    deployment = _deployment(advice, llvm)
    check = check_deployment(deployment, clang=llvm.clang)
    if not check.compiled or not check.active:
        said = check.explanation or check.message.partition("\n")[0] or "it says nothing"
        raise ToolchainError(f"{llvm.clang} does not take the advisor plugin: {said}")
    if check.fallbacks:
        raise PolicyError(check.fallbacks[0].reason)
    remember(advice.key, _made_from(advice, llvm, deployment), (str(llvm.clang), f"--config={deployment.config}"))
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
    folder = entry_file(advice.key).with_suffix(f".llvm{llvm.major}")
    return deploy_to_clang_config(
        folder,
        llvm=llvm,
        policies=[advice.policy] if advice.policy is not None else [],
        overrides=advice.overrides,
    )


def _made_from(advice: Advice, llvm: LLVM, deployment: Deployment) -> list[Path]:
    used = [llvm.clang, llvm.clang.resolve(), advisor_plugin(llvm)]
    used += [each for each in deployment.folder.iterdir() if each.name != KEPT_FILE]
    if advice.policy is not None:
        used += [each for each in _files(advice.policy) if each.name != KEPT_FILE]
    return used + ([advice.overrides] if advice.overrides is not None else [])


def _files(policy: Path) -> list[Path]:
    return [policy] if policy.is_file() else sorted(policy.iterdir())


def _plain(llvm: LLVM, arguments: Sequence[str], reason: str) -> int:
    """Become the compiler, without advice."""
    print(_without(reason), file=sys.stderr, flush=True)
    os.execv(llvm.clang, [str(llvm.clang), *arguments])


def _without_policy(advice: Advice, llvm: LLVM, arguments: Sequence[str]) -> int:
    """`_plain` where nothing was asked for, which is remembered: a build may be full of such commands."""
    reason = "no policy is named (--policy P, or PYMLGO_CLANG_POLICY), and this package has none for this level"
    with contextlib.suppress(MLGOError, OSError):
        remember(advice.key, [llvm.clang, launcher_program()], [str(llvm.clang)], say=_without(reason))
    return _plain(llvm, arguments, reason)


def _without(reason: str) -> str:
    return f"mlgo: compiling without advice: {reason}"


def _through_pipes(advice: Advice, llvm: LLVM, arguments: Sequence[str], reason: ToolchainError) -> int:
    """The policy answers over the interactive channel, where there is no plugin."""
    if advice.policy is None or not advice.policy.is_dir() or (advice.policy / DESCRIPTION_FILE).exists():
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
