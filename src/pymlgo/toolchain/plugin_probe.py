"""Does an LLVM load pass plugins, and which of its classes does it share with them?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pymlgo.errors import ToolchainError
from pymlgo.toolchain.experiment import LIMIT_S, Capability, compile_calls, refusal
from pymlgo.toolchain.llvm import LLVM
from pymlgo.toolchain.process import Argument, Finished, run

_PLUGIN = """
struct Info {
  unsigned version; const char *name, *plugin_version; void (*passes)(void *);
#if VERSION >= 2
  void (*before_codegen)(void);
#endif
};
extern long write(int, const void *, unsigned long);
extern char inline_advisor[] __asm__("_ZN4llvm27PluginInlineAdvisorAnalysis3KeyE") __attribute__((weak));
extern char interactive_runner[] __asm__("_ZTVN4llvm22InteractiveModelRunnerE") __attribute__((weak));
static void say(const char *text, unsigned long size) { (void)write(2, text, size); }
static void passes(void *builder) {
  say("probe:loaded\\n", 13);
  if (inline_advisor) say("probe:inline_advisor\\n", 21);
  if (interactive_runner) say("probe:interactive_runner\\n", 25);
}
struct Info llvmGetPassPluginInfo(void) {
  struct Info info = {VERSION, "probe", "1", passes};
  return info;
}
"""
"""A pass plugin in C, so that no header of LLVM is needed; it tells which of LLVM's symbols it was given.

Source: PassPluginLibraryInfo in llvm/Plugins/PassPlugin.h (LLVM 22: version 2) and llvm/Passes/PassPlugin.h (before:
version 1, without the last member).
"""

_NEWEST_PLUGIN_VERSION = 2

_SHARED_LIBRARIES_HINT = "use LLVM 22 or 19 with shared libraries, as Debian and apt.llvm.org package it"


def plugins(llvm: LLVM, folder: Path) -> Mapping[str, Capability]:
    """`plugin_loading`, and whether a plugin can become the advisor of the inliner and of register allocation."""
    try:
        loaded, said = _tried(llvm, folder)
    except ToolchainError as error:
        loaded, said = Capability(available=None, detail=str(error)), ""
    if not loaded.available:
        return dict.fromkeys(("plugin_loading", "inliner_plugin", "regalloc_plugin"), loaded)
    return {
        "plugin_loading": loaded,
        "inliner_plugin": _shared("inline_advisor" in said, "PluginInlineAdvisorAnalysis"),
        "regalloc_plugin": _shared("interactive_runner" in said, "InteractiveModelRunner"),
    }


def _tried(llvm: LLVM, folder: Path) -> tuple[Capability, str]:
    """Whether a plugin is loaded, and what it said."""
    version = 1  # the shorter form first: an older clang has no room for the longer
    done = _with_plugin(llvm, folder, version)
    if done is not None and (wanted := re.search(rb"Got version 1, supported version is (\d+)", done.stderr)):
        version = int(wanted[1])
        if version > _NEWEST_PLUGIN_VERSION:
            return Capability(available=None, detail=f"plugin API {version}, which this package does not know"), ""
        done = _with_plugin(llvm, folder, version)
    if done is None:
        hint = f"apt-get install lld-{llvm.major}"
        return Capability(available=None, detail="no linker for a plugin to try", hint=hint), ""
    said = done.stderr.decode(errors="replace")
    if done.returncode or "probe:loaded" not in said:
        return refusal(done.stderr, "the plugin was not called"), ""
    return Capability(available=True, detail=f"plugin API {version}"), said


def _with_plugin(llvm: LLVM, folder: Path, version: int) -> Finished | None:
    """A compile with the plugin; None where the plugin cannot be linked."""
    source, plugin = folder / "plugin.c", folder / f"plugin{version}.so"
    source.write_text(_PLUGIN)
    lld = llvm.tool("ld.lld")
    for linker in ([], [f"--ld-path={lld}"] if lld else []):
        # Without start files and libraries no C library needs to be installed; clang itself brings `write`.
        flags = ["-O1", "-fPIC", "-shared", "-nostdlib", f"-DVERSION={version}", *linker]
        command: list[Argument] = [llvm.clang, *flags, source, "-o", plugin]
        if run(command, limit_s=LIMIT_S).returncode == 0:
            return compile_calls(llvm, folder, (f"-fpass-plugin={plugin}",))
    return None


def _shared(exported: bool, name: str) -> Capability:
    if exported:
        return Capability(available=True, detail=f"{name} is exported")
    return Capability(available=False, detail=f"this clang has or exports no {name}", hint=_SHARED_LIBRARIES_HINT)
