"""The fastest way to decide that this machine has for an LLVM."""

from __future__ import annotations

from pymlgo.rollout.backend import Backend
from pymlgo.rollout.pipes import PipesBackend
from pymlgo.rollout.plugin import PluginBackend
from pymlgo.toolchain.advisor import advisor_plugins
from pymlgo.toolchain.engine_program import engine_program
from pymlgo.toolchain.llvm import LLVM


def fastest_backend(llvm: LLVM, *, problem: str = "inlining") -> Backend:
    """The compile server with the advisor plugin, else the plugin in a clang for each job, else the pipes.

    The server compiles without forks where it can; ask for the backend `engine` to have each compile isolated.
    The three give equal objects for equal decisions; only the first two offer the extension features.
    """
    plugin = advisor_plugins().get(llvm.major)
    if plugin is None:
        return PipesBackend(llvm=llvm, problem=problem)
    return PluginBackend(llvm=llvm, plugin=plugin, engine=engine_program(llvm), problem=problem, fork=False)
