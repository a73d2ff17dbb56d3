"""The optimization problems that LLVM asks about: features, advice, contexts, flags. Data only."""
