"""MLModelRunner and its four implementations, with the contract of LLVM's document."""
