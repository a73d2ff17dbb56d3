"""Puts a policy into a stock clang: config file, plugin, compiler wrapper, LLVM-tree artefacts.

Nothing is imported here: the compiler wrapper starts through this package.
"""
