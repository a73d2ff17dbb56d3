"""`mlgo corpus VERB`: make corpora of bitcode and look after them."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence

VERBS = {
    "extract": ("corpus_extract", "make a corpus from a build's objects with embedded bitcode"),
    "make": ("corpus_extract", "make a corpus from a folder of bitcode files"),
    "combine": ("corpus_extract", "write one description for the corpora in a folder"),
    "record": ("corpus_record", "run a build so that it embeds bitcode, and write its compile database"),
    "fetch": ("corpus_fetch", "make a corpus from public source packages, by a recipe"),
    "describe": ("corpus_extract", "say what is in a corpus"),
    "verify": ("corpus_tend", "replay every module and compare with the objects of the build"),
    "dedup": ("corpus_tend", "copy a corpus with every module once"),
    "scrub": ("corpus_tend", "copy a corpus with command lines that name no path of the machine that built"),
    "split": ("corpus_tend", "copy a corpus in two that share no project, for training and evaluation"),
    "index": ("corpus_index", "count the decisions of every module and measure its default object"),
    "export": ("corpus_tend", "write a corpus as a Parquet table"),
}
"""Each verb is `configure_<verb>(parser)` and `run_<verb>(arguments) -> int` of a module beside this one."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs' parsers."""
    verbs = parser.add_subparsers(dest="corpus_verb", metavar="VERB", required=True)
    for name, (module, summary) in VERBS.items():
        described = verbs.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        getattr(importlib.import_module(f"pymlgo.cli.{module}"), f"configure_{name}")(described)


def run(arguments: argparse.Namespace) -> int:
    """The verb's exit code."""
    module, _ = VERBS[arguments.corpus_verb]
    return int(getattr(importlib.import_module(f"pymlgo.cli.{module}"), f"run_{arguments.corpus_verb}")(arguments))


def say(text: str) -> None:
    """A line for the reader: on stderr, as stdout is for data."""
    print(text, file=sys.stderr)


def say_skipped(skipped: Mapping[str, int], examples: Mapping[str, str]) -> None:
    """What was skipped, a line for each reason, the most frequent first."""
    from pymlgo.corpus.candidates import EXPLANATIONS, Reason

    for reason, count in sorted(skipped.items(), key=lambda each: (-each[1], each[0])):
        meaning = EXPLANATIONS[Reason(reason)] if reason in set(Reason) else ""
        say(f"  skipped {count}: {reason}" + (f" ({meaning})" if meaning else ""))
        if example := examples.get(reason):
            say(f"    e.g. {example[:300]!s}".replace("\n", " "))


def say_hints(hints: Sequence[str]) -> None:
    """Each hint on its line."""
    for hint in hints:
        say(f"hint: {hint}")
