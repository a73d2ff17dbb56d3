"""`deploy_to_clang_config`: a folder that one clang flag needs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pymlgo.atomic_file import write_bytes, write_text
from pymlgo.emit import compile_policy
from pymlgo.errors import ConfigError, PolicyError, ToolchainError
from pymlgo.policy.directory import load_policy
from pymlgo.toolchain.advisor import advisor_plugin
from pymlgo.toolchain.identity import is_linked_statically
from pymlgo.toolchain.llvm import LLVM

CONFIG_FILE = "mlgo.cfg"
OPTIONS_FILE = "mlgo.options"
OVERRIDES_FILE = "mlgo.overrides"
VOCABULARY_FILE = "mlgo.vocabulary"
TOOLCHAIN_FILE = "mlgo.cmake"
DESCRIPTION_FILE = "deployment.json"

OLDEST_WITH_LINKER_CONFIG = 20
"""First release whose configuration files may hold linker flags (`$-Wl,…`), used only when it links."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedPolicy:
    """One policy of a deployment; `file` lies in its folder."""

    problem: str
    source: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A folder that `clang --config=<folder>/mlgo.cfg` uses.

    Attributes:
        folder: absolute; it may be moved as a whole.
        config: the file that clang is told.
        clang: the clang it was made for; others of the same major work too.
        llvm: that clang's version.
        policies: at most one for each problem.
        overrides: True when fixed decisions are part of it.
        override_options: the line for clang's environment variable CCC_OVERRIDE_OPTIONS, where flags cannot be changed.
        cmake_toolchain: for CMake's -DCMAKE_TOOLCHAIN_FILE.
    """

    folder: Path
    config: Path
    clang: Path
    llvm: str
    policies: tuple[DeployedPolicy, ...]
    overrides: bool
    override_options: str
    cmake_toolchain: Path


def deploy_to_clang_config(
    folder: Path,
    *,
    llvm: LLVM,
    policies: Sequence[Path] = (),
    overrides: Path | None = None,
    problems: Sequence[str] = (),
    vocabulary: Path | None = None,
    link_time: bool = False,
) -> Deployment:
    """Write everything that a stock clang needs to compile with `policies` into `folder`, which is made.

    Args:
        folder: where to.
        llvm: the clang that will use it; its plugin is copied there.
        policies: policy directories, which are compiled, or policies that are compiled already.
        overrides: a file of decisions by key.
        problems: what `overrides` are about; inlining by default.
        vocabulary: of IR2Vec, for policies that take embeddings (LLVM 22).
        link_time: also let lld advise its link-time optimization.

    Raises:
        PolicyError: a policy cannot be read or compiled, or two are for one problem.
        ToolchainError: no plugin is for this LLVM, its clang is linked statically, or there is no C++ compiler for the
            policies.
        ConfigError: nothing to deploy, or `link_time` with an LLVM whose configuration files hold no linker flags.
    """
    if not policies and overrides is None:
        raise ConfigError(
            "nothing to deploy: no policy and no overrides", hint="mlgo deploy POLICY --to clang-config DIR"
        )
    if link_time and llvm.major < OLDEST_WITH_LINKER_CONFIG:
        raise ConfigError(
            f"configuration files of LLVM {llvm.major} hold no linker flags",
            hint=f"give the linker -Wl,--load-pass-plugin={folder}/{advisor_plugin(llvm).name} yourself",
        )
    require_shared_llvm(llvm)
    folder = folder.absolute()
    plugin = advisor_plugin(llvm)
    write_bytes(folder / plugin.name, plugin.read_bytes())
    deployed = tuple(_put_policy(each, folder) for each in policies)
    _check_distinct(deployed)
    if overrides is not None:
        write_bytes(folder / OVERRIDES_FILE, _content(overrides))
    if vocabulary is not None:
        write_bytes(folder / VOCABULARY_FILE, _content(vocabulary))
    write_text(folder / OPTIONS_FILE, _options_text(deployed, overrides is not None, problems, vocabulary is not None))
    write_text(folder / CONFIG_FILE, _config_text(plugin.name, llvm, link_time))
    write_text(folder / TOOLCHAIN_FILE, _toolchain_text(llvm))
    deployment = _described(folder, llvm, deployed, overrides is not None)
    _write_description(deployment)
    return deployment


def require_shared_llvm(llvm: LLVM) -> None:
    """Refuse a clang into which a plugin would bring a second LLVM, at best in vain.

    Raises:
        ToolchainError: it is linked statically.
    """
    if is_linked_statically(llvm.clang):
        raise ToolchainError(
            f"{llvm.clang} is linked statically: a plugin cannot advise it",
            hint="mlgo clang serves it over the interactive channel; Debian and apt.llvm.org have shared libraries",
        )


def read_deployment(folder: Path) -> Deployment:
    """What `deploy_to_clang_config` left in `folder`.

    Raises:
        ConfigError: it left nothing there, or another version did.
    """
    file = folder / DESCRIPTION_FILE
    try:
        described = json.loads(file.read_text(encoding="utf-8"))
        policies = tuple(DeployedPolicy(**each) for each in described["policies"])
        version = tuple(map(int, described["llvm"].split(".")))
        llvm = LLVM(clang=Path(described["clang"]), version=(version[0], version[1], version[2]))
        return _described(folder.absolute(), llvm, policies, bool(described["overrides"]))
    except OSError as error:
        raise ConfigError(
            f"is no deployment: {error.strerror}",
            file=file,
            hint="make one with mlgo deploy POLICY --to clang-config DIR",
        ) from error
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise ConfigError("is damaged, or of another version", file=file, hint="deploy again") from error


def _described(folder: Path, llvm: LLVM, policies: tuple[DeployedPolicy, ...], overrides: bool) -> Deployment:
    config = folder / CONFIG_FILE
    return Deployment(
        folder=folder,
        config=config,
        clang=llvm.clang,
        llvm=llvm.version_text,
        policies=policies,
        overrides=overrides,
        # "#" keeps clang from printing what it changed.
        override_options=f"# ^--config={config}",
        cmake_toolchain=folder / TOOLCHAIN_FILE,
    )


def _write_description(deployment: Deployment) -> None:
    described = {
        "schema": "pymlgo/deployment-1",
        "llvm": deployment.llvm,
        "clang": str(deployment.clang),
        "policies": [asdict(each) for each in deployment.policies],
        "overrides": deployment.overrides,
    }
    write_text(deployment.folder / DESCRIPTION_FILE, json.dumps(described, indent=2) + "\n")


def _put_policy(source: Path, folder: Path) -> DeployedPolicy:
    if source.is_dir():
        policy = load_policy(source)
        target = folder / f"{policy.problem}.so"
        compile_policy(policy, target, name=source.resolve().name)
        return DeployedPolicy(problem=policy.problem, source=str(source.resolve()), file=target.name)
    data = _content(source)
    if not data.startswith(b"\x7fELF"):
        raise PolicyError(
            f"{source} is neither a policy directory nor a compiled policy",
            hint="mlgo train … -o DIR makes a directory",
        )
    # Which problem it is for, the plugin asks the library itself.
    target = folder / source.name
    write_bytes(target, data)
    return DeployedPolicy(problem="", source=str(source.resolve()), file=target.name)


def _check_distinct(policies: Sequence[DeployedPolicy]) -> None:
    for field in ("problem", "file"):
        named = [getattr(each, field) for each in policies if getattr(each, field)]
        for each in named:
            if named.count(each) > 1:
                raise PolicyError(f"two policies for {field} {each!r}", hint="deploy one for each problem")


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from error


def _options_text(
    policies: Sequence[DeployedPolicy], overrides: bool, problems: Sequence[str], vocabulary: bool
) -> str:
    lines = ["# Options of the plugin beside this file; paths are relative to it."]
    lines += [f"policy={each.file}" for each in policies]
    lines += [f"overrides={OVERRIDES_FILE}"] if overrides else []
    lines += [f"problems={','.join(problems)}"] if problems else []
    lines += [f"vocabulary={VOCABULARY_FILE}"] if vocabulary else []
    return "\n".join(lines) + "\n"


def _config_text(plugin: str, llvm: LLVM, link_time: bool) -> str:
    # No -mllvm options here: clang hands those to its assembler too, which does not know the plugin's.
    lines = [
        f"# clang {llvm.major} --config=<this file>: the plugin advises, as {OPTIONS_FILE} beside it says.",
        f"-fpass-plugin=<CFGDIR>/{plugin}",
    ]
    lines += [f"$-Wl,--load-pass-plugin=<CFGDIR>/{plugin}"] if link_time else []
    return "\n".join(lines) + "\n"


def _toolchain_text(llvm: LLVM) -> str:
    clang = llvm.clang
    cxx = clang.with_name(clang.name.replace("clang", "clang++", 1))
    if not cxx.exists():
        cxx = llvm.tool("clang++") or cxx
    flag = "--config=${CMAKE_CURRENT_LIST_DIR}/" + CONFIG_FILE
    return "".join(
        (
            "# cmake -DCMAKE_TOOLCHAIN_FILE=<this file> …\n",
            f'set(CMAKE_C_COMPILER "{clang}")\n',
            f'set(CMAKE_CXX_COMPILER "{cxx}")\n',
            # Not CMAKE_C_FLAGS_INIT: a project's or user's CMAKE_C_FLAGS would replace it.
            f'add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX,OBJC,OBJCXX>:{flag}>")\n',
        )
    )


def remove_deployment(folder: Path) -> None:
    """Remove a deployment with its folder.

    Raises:
        ConfigError: the folder is no deployment: nothing is removed then.
    """
    read_deployment(folder)
    shutil.rmtree(folder)
