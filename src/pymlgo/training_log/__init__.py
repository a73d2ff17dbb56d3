"""The training log: LLVM's format for features, decisions and outcomes; writer and zero-copy reader."""
