"""What a search for decisions says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedModule:
    """What the search found for one module.

    Attributes:
        tuned_text_bytes, tuned_berkeley_bytes: with its own overrides.
        merged_text_bytes, merged_berkeley_bytes: with those of the whole project.
        overrides: how many of its decisions differ from LLVM's default.
        compiles: of the search.
    """

    name: str
    default_text_bytes: int
    tuned_text_bytes: int
    text_change_percent: float
    default_berkeley_bytes: int
    tuned_berkeley_bytes: int
    merged_text_bytes: int
    merged_berkeley_bytes: int
    decisions: int
    overrides: int
    compiles: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult:
    """What the search found for a corpus.

    Attributes:
        output: the file of overrides for all modules; its sizes are the `merged` ones.
        tuned_text_bytes: if each module had its own overrides.
        improved: modules that the file makes smaller.
        overrides: how many decisions the file holds.
        left_out: decisions that were good for one module and bad for others, and are not in the file.
        compiles: of the searches and of joining what they found.
        failed_modules: modules that do not compile, and why.
    """

    output: Path
    modules: tuple[TunedModule, ...]
    failed: int
    failed_modules: Mapping[str, str]
    improved: int
    default_text_bytes: int
    tuned_text_bytes: int
    merged_text_bytes: int
    text_change_percent: float
    tuned_change_percent: float
    default_berkeley_bytes: int
    merged_berkeley_bytes: int
    berkeley_change_percent: float
    overrides: int
    left_out: int
    compiles: int
    cpu_s: float
