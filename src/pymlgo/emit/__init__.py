"""Compiles a policy's graph to dependency-free C++: LLVM's release class, the EmitC class, a plain C ABI."""

from __future__ import annotations

from pymlgo.emit.artefact import abi_header_text, artefact_of, source_text
from pymlgo.emit.compiled import CompiledPolicy, compile_policies, compile_policy, emit_cpp
from pymlgo.emit.cxx import find_compiler
from pymlgo.emit.llvm_tree import ReleaseModel, development_options, export_emitc, export_llvm_release

__all__ = [
    "CompiledPolicy",
    "ReleaseModel",
    "abi_header_text",
    "artefact_of",
    "compile_policies",
    "compile_policy",
    "development_options",
    "emit_cpp",
    "export_emitc",
    "export_llvm_release",
    "find_compiler",
    "source_text",
]
