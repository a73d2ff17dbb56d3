"""Training algorithms, each one readable file, and per-module search."""
