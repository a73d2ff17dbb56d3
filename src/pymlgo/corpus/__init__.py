"""Corpora: bitcode modules with the command lines that recompile them. Files only; no compiler is asked for decisions."""
