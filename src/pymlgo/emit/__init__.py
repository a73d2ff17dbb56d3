"""Compiles a policy's graph to dependency-free C++: LLVM's release class, the EmitC class, a plain C ABI."""
