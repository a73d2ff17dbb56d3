"""One small experiment for each thing that an LLVM may be able to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from pymlgo.errors import ToolchainError
from pymlgo.toolchain.channel_probe import eviction_channel, inliner_channel, priority_channel
from pymlgo.toolchain.experiment import LIMIT_S, Capability, compile_calls, refusal
from pymlgo.toolchain.flags import embed_bitcode_flags
from pymlgo.toolchain.llvm import LLVM
from pymlgo.toolchain.plugin_probe import plugins
from pymlgo.toolchain.process import run

_LLVM_IR = "define i32 @f(i32 %x) {\n  %y = mul i32 %x, %x\n  ret i32 %y\n}\n"

OLDEST_WITH_IR2VEC_TOOL = 22
"""First release whose `llvm-ir2vec` was measured; Debian's packages of 19 have none."""

DESCRIPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "inliner_channel": "inliner channel",
        "eviction_channel": "eviction channel",
        "priority_channel": "priority channel",
        "embedded_bitcode": "embedding sections",
        "ir2vec_tool": "ir2vec tool",
        "plugin_loading": "plugin loading",
        "inliner_plugin": "inliner plugin",
        "regalloc_plugin": "regalloc plugin",
    }
)
"""Every capability by name, with its words in tables."""

_Experiment = Callable[[LLVM, Path], Capability]


def try_everything(llvm: LLVM, folder: Path) -> dict[str, Capability]:
    """An answer for each name in `DESCRIPTIONS`; `folder` takes the experiments' files."""
    if broken := _broken(llvm, folder):
        return dict.fromkeys(DESCRIPTIONS, broken)
    experiments: dict[str, _Experiment] = {
        "inliner_channel": inliner_channel,
        "eviction_channel": eviction_channel,
        "priority_channel": priority_channel,
        "embedded_bitcode": _embedded_bitcode,
        "ir2vec_tool": _ir2vec_tool,
    }
    found = {name: _tried(experiment, llvm, folder) for name, experiment in experiments.items()}
    return found | dict(plugins(llvm, folder))


def _tried(experiment: _Experiment, llvm: LLVM, folder: Path) -> Capability:
    try:
        return experiment(llvm, folder)
    except ToolchainError as error:
        return Capability(available=None, detail=str(error))


def _broken(llvm: LLVM, folder: Path) -> Capability | None:
    """The answer to every question where clang compiles no C at all."""
    try:
        done = compile_calls(llvm, folder, ())
    except ToolchainError as error:
        return Capability(available=None, detail=str(error))
    if done.returncode == 0:
        return None
    refused = refusal(done.stderr, f"exit code {done.returncode}")
    return Capability(available=None, detail=f"clang compiles no C: {refused.detail}", hint=refused.hint)


def _embedded_bitcode(llvm: LLVM, folder: Path) -> Capability:
    done = compile_calls(llvm, folder, embed_bitcode_flags(llvm))
    if done.returncode:
        return refusal(done.stderr, f"exit code {done.returncode}")
    try:
        with (folder / "calls.o").open("rb") as stream:
            elf = ELFFile(stream)
            missing = [name for name in (".llvmbc", ".llvmcmd") if elf.get_section_by_name(name) is None]
    except (OSError, ELFError) as error:
        return Capability(available=None, detail=f"the object is not ELF: {error}")
    if missing:
        return Capability(available=False, detail=f"the object lacks {' and '.join(missing)}")
    return Capability(available=True, detail="sections .llvmbc and .llvmcmd")


def _ir2vec_tool(llvm: LLVM, folder: Path) -> Capability:
    tool = llvm.tool("llvm-ir2vec")
    new_enough = llvm.major >= OLDEST_WITH_IR2VEC_TOOL
    hint = f"apt-get install llvm-{llvm.major}" if new_enough else f"use LLVM {OLDEST_WITH_IR2VEC_TOOL}"
    if tool is None:
        return Capability(available=False, detail="llvm-ir2vec is not installed", hint=hint)
    module = folder / "probe.ll"
    module.write_text(_LLVM_IR)
    done = run((tool, "triplets", module), limit_s=LIMIT_S)
    if done.returncode or b"MAX_RELATION=" not in done.stdout:
        return Capability(available=False, detail=f"{tool} prints no triplets", hint=hint)
    return Capability(available=True, detail=str(tool))
