"""For users' own tests: a fake compiler, hypothesis strategies, contract checks."""
