"""The flags of each LLVM version, in this one place.

The functions named `…_flags` return what a clang command line takes, those named `…_options` LLVM's own options, as
`opt` and `llc` take them.

Source: measured on clang 22.1.8 and 19.1.7. Departure from LLVM's document: it calls the eviction switch
`-regalloc-evict-advisor`; no version has an option of that name.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pymlgo.errors import ToolchainError
from pymlgo.toolchain.llvm import LLVM, OLDEST_WITH_CHANNEL

OLDEST_WITH_IR2VEC_FEATURES = 22
"""First release that was measured to have `-ml-inliner-ir2vec-vocab-file`; 19 lacks it."""

OLDEST_WITH_OPTIONS_OF_PASS_PLUGINS = 22
"""First release where `-fpass-plugin` alone makes the plugin's own options known: 19 needs `-fplugin` too."""


def inliner_channel_flags(llvm: LLVM, base: Path, *, include_default: bool) -> tuple[str, ...]:
    """`clang` asks `<base>.in`/`<base>.out` at each inlining decision.

    Args:
        llvm: the LLVM that will compile.
        base: path of the channel without `.in` and `.out`.
        include_default: append the feature `inlining_default`, what LLVM's own heuristic would do.

    Raises:
        ToolchainError: this LLVM is too old for the channel.
    """
    _require_channel(llvm)
    return mllvm(inliner_channel_options(base, include_default=include_default))


def inliner_channel_options(base: Path, *, include_default: bool) -> tuple[str, ...]:
    """What `inliner_channel_flags` puts behind `-mllvm`."""
    default = ("-inliner-interactive-include-default",) if include_default else ()
    return ("-enable-ml-inliner=release", f"-inliner-interactive-channel-base={base}", *default)


def eviction_channel_flags(llvm: LLVM, base: Path) -> tuple[str, ...]:
    """`clang` asks at each register eviction of the greedy allocator.

    Raises:
        ToolchainError: this LLVM is too old for the channel.
    """
    _require_channel(llvm)
    return mllvm(eviction_channel_options(base))


def eviction_channel_options(base: Path) -> tuple[str, ...]:
    """What `eviction_channel_flags` puts behind `-mllvm`."""
    return ("-regalloc-enable-advisor=release", f"-regalloc-evict-interactive-channel-base={base}")


def priority_channel_flags(llvm: LLVM, base: Path) -> tuple[str, ...]:
    """`clang` asks for the priority of each live range that the greedy allocator queues.

    Raises:
        ToolchainError: this LLVM is too old for the channel.
    """
    _require_channel(llvm)
    return mllvm(priority_channel_options(base))


def priority_channel_options(base: Path) -> tuple[str, ...]:
    """What `priority_channel_flags` puts behind `-mllvm`."""
    return ("-regalloc-enable-priority-advisor=release", f"-regalloc-priority-interactive-channel-base={base}")


def ir2vec_feature_flags(llvm: LLVM, vocabulary: Path) -> tuple[str, ...]:
    """The inliner's observations also carry `callee_embedding` and `caller_embedding`.

    Both options are needed: the first only switches the features on, the second names the file that is read.

    Raises:
        ToolchainError: this LLVM's inliner has no such features.
    """
    if llvm.major < OLDEST_WITH_IR2VEC_FEATURES:
        raise ToolchainError(
            f"the inliner of LLVM {llvm.version_text} has no IR2Vec features",
            hint=f"use LLVM {OLDEST_WITH_IR2VEC_FEATURES}",
        )
    return mllvm((f"-ml-inliner-ir2vec-vocab-file={vocabulary}", f"-ir2vec-vocab-path={vocabulary}"))


def embed_bitcode_flags(llvm: LLVM) -> tuple[str, ...]:
    """The object carries its bitcode and command line in the sections `.llvmbc` and `.llvmcmd`."""
    return ("-Xclang", "-fembed-bitcode=all")


def plugin_flags(llvm: LLVM, plugin: Path) -> tuple[str, ...]:
    """`clang` loads a pass plugin early enough for `-mllvm` options that the plugin defines."""
    passes = f"-fpass-plugin={plugin}"
    return (passes,) if llvm.major >= OLDEST_WITH_OPTIONS_OF_PASS_PLUGINS else (f"-fplugin={plugin}", passes)


def mllvm(options: Iterable[str]) -> tuple[str, ...]:
    """`options` of LLVM as clang takes them: each behind its own `-mllvm`."""
    return tuple(word for option in options for word in ("-mllvm", option))


def _require_channel(llvm: LLVM) -> None:
    if llvm.major < OLDEST_WITH_CHANNEL:
        raise ToolchainError(
            f"{llvm.clang} is LLVM {llvm.version_text}: it has no interactive channel",
            hint=f"use LLVM {OLDEST_WITH_CHANNEL} or newer; `mlgo doctor` lists what is installed",
        )
