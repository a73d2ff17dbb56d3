"""Owns a compiler over LLVM's interactive pipes, and hosts the answers to its questions."""
