"""What stock clang's texts about MLGO mean, and what to do about them."""

from __future__ import annotations

import re

from pymlgo.toolchain.llvm import OLDEST_WITH_CHANNEL

_DEVELOPMENT_ONLY = (
    "training-log|ml-inliner-model-under-training|regalloc-training-log|regalloc-model|tfutils-use-simplelogger"
)

_KNOWN: tuple[tuple[str, str], ...] = (
    (
        rf"Unknown command line argument '--?(?:{_DEVELOPMENT_ONLY})\b",
        "this option exists only in an LLVM built with TFLite (development mode); with a stock clang, record a log "
        "through the interactive channel: mlgo log record",
    ),
    (
        r"Unknown command line argument '--?regalloc-evict-advisor",
        "LLVM's document misnames it: the option is -regalloc-enable-advisor",
    ),
    (
        r"Unknown command line argument '--?\S*interactive-channel-base",
        f"the interactive channel came with LLVM {OLDEST_WITH_CHANNEL}: use a newer clang",
    ),
    (
        r"Unknown command line argument '--?(?:ml-inliner-ir2vec-vocab-file|ir2vec-|mir2vec-)",
        "IR2Vec features and embeddings came after LLVM 19: use LLVM 22",
    ),
    (
        r"Unknown command line argument '--?mlgo-",
        "the advisor plugin is not loaded before options are read: LLVM before 22 needs -fplugin=… beside "
        "-fpass-plugin=…, and lld takes the plugin's options only from its environment variable",
    ),
    (
        r"IR2Vec vocabulary file path not specified",
        "give both options: -ml-inliner-ir2vec-vocab-file=F switches the features on, -ir2vec-vocab-path=F names the "
        "file that is read",
    ),
    (
        r"Cannot open inbound file",
        "the channel's pipe <base>.in is not there: make both pipes before the compiler starts; clang goes on "
        "without it and crashes",
    ),
    (
        r"Could not setup Inlining Advisor",
        "a stock clang has no built-in inliner model: name a channel with -inliner-interactive-channel-base, or load "
        "the advisor plugin without -enable-ml-inliner",
    ),
    (
        r"Requested regalloc (?:eviction|priority) advisor analysis could (?:not )?be created",
        "a stock clang has no built-in register allocation model: name a channel with "
        "-regalloc-evict-interactive-channel-base (eviction) or -regalloc-priority-interactive-channel-base (priority)",
    ),
    (
        r"mlgo: plugin: this compiler has an LLVM of its own",
        "this clang is linked statically and exports no symbols: use one with shared libraries, as Debian and "
        "apt.llvm.org package it, or mlgo clang, which serves it over the interactive channel",
    ),
    (
        r"Wrong API version on plugin",
        "the plugin was built for another LLVM release: each needs its own",
    ),
    (
        r"unable to load plugin.*undefined symbol",
        "the plugin wants symbols that this clang does not export: it was built for another LLVM, or this clang is "
        "linked statically",
    ),
    (r"unable to load plugin", "check that the plugin's path is absolute and that its libraries are installed"),
    (
        r"Unknown attribute kind|Producer: 'LLVM\S*' Reader: 'LLVM",
        "the bitcode is from a newer LLVM than this clang: use the release that made it, or a newer one",
    ),
    (
        r"file doesn't start with bitcode header|Invalid bitcode signature|malformed bitcode",
        "the module is no bitcode, or damaged: extract it again",
    ),
    (
        r"IO failure on output stream: Broken pipe",
        "whoever read the channel went away while the compiler was writing",
    ),
    (
        r"PLEASE submit a bug report",
        "clang crashed; under a register allocation advisor the usual cause is an advice outside `mask`",
    ),
)
"""Regular expression to hint, most specific first. Source: texts printed by clang 14, 19 and 22."""


def explain(stderr: str) -> str | None:
    """What to do about the first known text in a clang's stderr; None where none is known."""
    return next((hint for pattern, hint in _KNOWN if re.search(pattern, stderr)), None)
