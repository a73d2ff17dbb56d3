"""Corpora: bitcode modules with the command lines that recompile them. No decision is asked of a compiler."""

from pymlgo.corpus.description import Corpus, Module, UnusableModule, read_corpus
from pymlgo.corpus.names import project_of
from pymlgo.corpus.objects import ObjectSizes, function_sizes, object_sizes
from pymlgo.corpus.replay import replay_command

__all__ = [
    "Corpus",
    "Module",
    "ObjectSizes",
    "UnusableModule",
    "function_sizes",
    "object_sizes",
    "project_of",
    "read_corpus",
    "replay_command",
]
