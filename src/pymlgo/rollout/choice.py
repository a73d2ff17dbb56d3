"""Which backend a command uses."""

from __future__ import annotations

from pymlgo.errors import ConfigError
from pymlgo.rollout.backend import Backend
from pymlgo.rollout.pipes import PipesBackend
from pymlgo.toolchain.advisor import advisor_plugin, advisor_plugins
from pymlgo.toolchain.llvm import LLVM

BACKENDS = ("auto", "pipes", "plugin")


def chosen_backend(name: str, llvm: LLVM, problem: str = "inlining") -> Backend:
    """The backend of this name; `auto` is the plugin where one is installed for `llvm`, else the pipes.

    The plugin is faster, and sends features that the pipes do not have.

    Raises:
        ConfigError: there is no such backend.
        ToolchainError: there is no plugin for this LLVM.
    """
    if name not in BACKENDS:
        raise ConfigError(f"unknown backend {name!r}", hint=f"known are {', '.join(BACKENDS)}")
    if name == "plugin" or (name == "auto" and llvm.major in advisor_plugins()):
        from pymlgo.rollout.plugin import PluginBackend

        return PluginBackend(llvm=llvm, plugin=advisor_plugin(llvm), problem=problem)
    return PipesBackend(llvm=llvm, problem=problem)
