"""A backend on another machine: the same compiler, plugin and server, wherever they are installed there."""

from __future__ import annotations

import copy
import dataclasses
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from pymlgo.errors import ToolchainError
from pymlgo.rollout.backend import Backend
from pymlgo.rollout.pipes import PipesBackend
from pymlgo.rollout.plain import PlainBackend
from pymlgo.rollout.plugin import PluginBackend
from pymlgo.toolchain.advisor import advisor_plugin
from pymlgo.toolchain.engine_program import engine_program
from pymlgo.toolchain.identity import binary_identity
from pymlgo.toolchain.llvm import LLVM, find_llvms, llvm_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocatable:
    """A backend with the identity of its compiler; a backend of another's making travels as it is."""

    backend: Backend
    compiler: str

    @classmethod
    def of(cls, backend: Backend) -> Relocatable:
        """`backend`, ready to travel."""
        if isinstance(backend, PlainBackend | PipesBackend | PluginBackend):
            return cls(backend=backend, compiler=binary_identity(backend.llvm.clang))
        return cls(backend=backend, compiler="")

    def here(self) -> Backend:
        """The backend with this machine's paths.

        Raises:
            ToolchainError: this machine lacks the compiler, its plugin or its compile server. Another build of the same
                version is another compiler: results would depend on which machine ran a job.
        """
        match self.backend:
            case PlainBackend() | PipesBackend() as backend:
                return dataclasses.replace(backend, llvm=self._llvm(backend.llvm))
            case PluginBackend() as backend:
                return self._with_plugin(backend)
            case backend:
                return backend

    def _with_plugin(self, backend: PluginBackend) -> PluginBackend:
        there = copy.copy(backend)
        there.llvm = self._llvm(backend.llvm)
        there.plugin = backend.plugin if backend.plugin.is_file() else advisor_plugin(there.llvm)
        if backend.engine is not None and not backend.engine.is_file():
            there.engine = engine_program(there.llvm)
            if there.engine is None:
                raise ToolchainError(
                    f"{socket.gethostname()} has no compile server for LLVM {there.llvm.version_text}",
                    hint="install pymlgo there with clang's headers, or use --backend plugin",
                )
        return there

    def _llvm(self, wanted: LLVM) -> LLVM:
        found = list(_of_version(wanted))
        for each in found:
            if binary_identity(each.clang) == self.compiler:
                return each
        others = f"its {', '.join(str(each.clang) for each in found)} is another build" if found else "it has none"
        raise ToolchainError(
            f"{socket.gethostname()} lacks the clang {wanted.version_text} that this run compiles with; {others}",
            hint="install the same package of LLVM on every node, or set PYMLGO_LLVM_DIR there",
        )


def _of_version(wanted: LLVM) -> Iterator[LLVM]:
    """This machine's LLVMs of the version, the one in the same place first."""
    if wanted.clang.is_file():
        same_place = llvm_of(wanted.clang)
        if same_place.version == wanted.version:
            yield same_place
    yield from (each for each in find_llvms() if each.version == wanted.version)
