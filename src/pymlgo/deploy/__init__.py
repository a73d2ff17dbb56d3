"""Puts a policy into a stock clang: config file, plugin, compiler wrapper, LLVM-tree artefacts."""
