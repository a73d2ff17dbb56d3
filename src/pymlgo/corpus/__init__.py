"""Corpora: bitcode modules with the command lines that recompile them. Files only: nothing is asked of a compiler."""
