"""Which backend a command uses."""

from __future__ import annotations

from pymlgo.errors import ConfigError, ToolchainError
from pymlgo.rollout.backend import Backend
from pymlgo.rollout.fastest import fastest_backend
from pymlgo.rollout.pipes import PipesBackend
from pymlgo.rollout.plugin import PluginBackend
from pymlgo.toolchain.advisor import advisor_plugin, advisor_plugins
from pymlgo.toolchain.engine_program import engine_program
from pymlgo.toolchain.llvm import LLVM

BACKENDS = ("fastest", "stock", "engine", "plugin", "pipes")
"""`fastest`: what this machine has. `stock`: the same, but clang itself compiles, not the compile server."""


def chosen_backend(name: str, llvm: LLVM, problem: str = "inlining") -> Backend:
    """The backend of this name.

    Raises:
        ConfigError: there is no such backend.
        ToolchainError: the compile server or the plugin for this LLVM is not installed.
    """
    has_plugin = llvm.major in advisor_plugins()
    match name:
        case "fastest":
            return fastest_backend(llvm, problem=problem)
        case "engine":
            engine = engine_program(llvm)
            if engine is None:
                raise ToolchainError(f"no compile server for LLVM {llvm.major} is installed", hint="use the plugin")
            return PluginBackend(llvm=llvm, plugin=advisor_plugin(llvm), engine=engine, problem=problem)
        case "stock" | "plugin" if name == "plugin" or has_plugin:
            return PluginBackend(llvm=llvm, plugin=advisor_plugin(llvm), problem=problem)
        case "stock" | "pipes":
            return PipesBackend(llvm=llvm, problem=problem)
        case _:
            raise ConfigError(f"unknown backend {name!r}", hint=f"known are {', '.join(BACKENDS)}")
