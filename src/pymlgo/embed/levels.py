"""Embeddings of a parsed module at every level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pymlgo.arrays import AnyArray, Float64Array
from pymlgo.embed.core import core
from pymlgo.embed.embeddings import Embeddings, Kind, Level, Precision, as_index, no_index
from pymlgo.embed.module import ParsedModule, positions
from pymlgo.embed.vocabulary import MIRVocabulary, MIRWeights, Vocabulary, Weights
from pymlgo.errors import CorpusError, SpecError, VocabularyError

KIND_NUMBER = {Kind.SYMBOLIC: 0, Kind.FLOW_AWARE: 1, Kind.FLOW_NORMALIZED: 2}
"""The core's numbers for kinds."""

_SET_NUMBER = {Level.LOOP: 0, Level.REGION: 1}

AnyVocabulary = Vocabulary | MIRVocabulary
AnyWeights = Weights | MIRWeights


def embed(
    module: ParsedModule,
    vocabulary: AnyVocabulary,
    *,
    level: Level | str = Level.FUNCTION,
    kind: Kind | str = Kind.SYMBOLIC,
    weights: AnyWeights | None = None,
    exact: bool = True,
) -> Embeddings:
    """The vectors of every instruction, block, function, loop or region of `module`, or of the module itself.

    Args:
        module: what `read_ir` or `read_mir` read; one reading serves any number of calls.
        vocabulary: a `Vocabulary` for IR, a `MIRVocabulary` for machine IR.
        level: what a row stands for. A block's vector sums its instructions', a function's its reachable blocks', a
            module's its functions', a loop's or region's its blocks', inner loops included.
        kind: see `Kind`; machine IR has only the symbolic kind.
        weights: LLVM's defaults if None.
        exact: add in LLVM's order, so that every bit is LLVM's. Otherwise symbolic vectors are counts times table,
            equal within rounding.

    Raises:
        VocabularyError: the vocabulary is for the other form of IR.
        SpecError: an unknown level or kind, or one that needs what was not read.
    """
    chosen_level, chosen_kind = _chosen(module, level, kind)
    table = weighted_table(module, vocabulary, weights)
    if exact or chosen_kind != Kind.SYMBOLIC:
        vectors = _exact_vectors(module, table, chosen_level, chosen_kind)
        precision = Precision.EXACT
    else:
        vectors = _fast_vectors(module, table, chosen_level)
        precision = Precision.FAST
    return _indexed(module, vectors, chosen_level, chosen_kind, precision)


def embed_blocks_of(
    module: ParsedModule,
    vocabulary: AnyVocabulary,
    sets: Sequence[tuple[int, Sequence[int]]],
    *,
    kind: Kind | str = Kind.SYMBOLIC,
    weights: AnyWeights | None = None,
) -> Float64Array:
    """f64[n_sets, dimension]: one vector for each set of blocks, the sum of theirs in the given order.

    A set is a function's number and the numbers of any of its blocks, connected or not; the rest is as in `embed`.
    """
    _, chosen = _chosen(module, Level.BLOCK, kind)
    rows = _exact_vectors(module, weighted_table(module, vocabulary, weights), Level.BLOCK, chosen)
    members: list[int] = []
    firsts = [0]
    for function, blocks in sets:
        count = module.functions[function].block_count
        if any(not 0 <= block < count for block in blocks):
            raise SpecError(f"{module.name}: function {function} has {count} blocks, found {list(blocks)}")
        base = int(module.walk.first_block[function])
        members.extend(base + block for block in blocks)
        firsts.append(len(members))
    return summed(rows, np.array(firsts, np.uint32), np.array(members, np.uint32))


def weighted_table(module: ParsedModule, vocabulary: AnyVocabulary, weights: AnyWeights | None) -> Float64Array:
    """f64[n_entities, dimension]: the vocabulary by the entity ids of `module`.

    Raises:
        VocabularyError: the vocabulary or the weights are for the other form of IR, or for another target.
        CorpusError: the module's entities are not those of this LLVM.
    """
    entities = module.entities
    if module.walk.entity_count != len(entities):
        raise CorpusError(f"{module.name}: expected {len(entities)} entities, found {module.walk.entity_count}")
    target = vocabulary.layout.get("target")
    if target and target != entities.target:
        found = entities.target or "IR"
        raise VocabularyError(
            f"{module.name} is for {found}, and the vocabulary for {target}", hint="--vocabulary JSON"
        )
    match vocabulary, weights, module.is_mir:
        case Vocabulary(), None | Weights(), False:
            return vocabulary.table(entities, weights or Weights())
        case MIRVocabulary(), None | MIRWeights(), True:
            return vocabulary.table(entities, weights or MIRWeights())
    wanted = "MIRVocabulary and MIRWeights" if module.is_mir else "Vocabulary and Weights"
    raise VocabularyError(f"{module.name}: expected a {wanted}, found {type(vocabulary).__name__}")


def summed(rows: Float64Array, firsts: AnyArray, members: AnyArray) -> Float64Array:
    """f64[n, dimension]: row s is the sum of `rows[members[firsts[s]:firsts[s + 1]]]`, added in that order."""
    out = np.empty((len(firsts) - 1, rows.shape[1]))
    core().sum_rows(np.ascontiguousarray(rows), firsts, members, out)
    return out


def _chosen(module: ParsedModule, level: Level | str, kind: Kind | str) -> tuple[Level, Kind]:
    try:
        chosen_level, chosen_kind = Level(level), Kind(kind)
    except ValueError as error:
        hint = f"levels: {', '.join(Level)}; kinds: {', '.join(Kind)}"
        raise SpecError(f"unknown level or kind: {error}", hint=hint) from error
    if module.is_mir and chosen_kind != Kind.SYMBOLIC:
        raise SpecError(f"{module.name}: machine IR has only the symbolic kind, found {chosen_kind}")
    if chosen_kind != Kind.SYMBOLIC and not module.walk.has_definitions:
        raise SpecError(f"{module.name} was read without definitions, which kind {chosen_kind} needs")
    if chosen_level == Level.LOOP and not module.options.loops:
        raise SpecError(f"{module.name} was read without loops", hint="ReadOptions(loops=True)")
    if chosen_level == Level.REGION and not module.options.regions:
        raise SpecError(f"{module.name} was read without regions", hint="ReadOptions(regions=True)")
    return chosen_level, chosen_kind


def _exact_vectors(module: ParsedModule, table: Float64Array, level: Level, kind: Kind) -> Float64Array:
    native, walk = core(), module.walk
    if level == Level.MODULE:
        functions = _exact_vectors(module, table, Level.FUNCTION, kind)
        return summed(functions, *_all_of(len(functions)))
    if level in _SET_NUMBER:
        blocks = _exact_vectors(module, table, Level.BLOCK, kind)
        return summed(blocks, *_sets(module, level)[:2])
    fill, count = {
        Level.INSTRUCTION: (native.embed_instructions, walk.instructions),
        Level.BLOCK: (native.embed_blocks, walk.blocks),
        Level.FUNCTION: (native.embed_functions, walk.functions),
    }[level]
    out = np.empty((count, table.shape[1]))
    fill(walk, table, KIND_NUMBER[kind], 0, walk.functions, out)
    return out


def _fast_vectors(module: ParsedModule, table: Float64Array, level: Level) -> Float64Array:
    native, walk = core(), module.walk
    if level == Level.INSTRUCTION:  # a row for each distinct instruction is the fast way already
        return _exact_vectors(module, table, level, Kind.SYMBOLIC)
    used = native.used_entities(walk)
    counts = np.empty((walk.blocks, len(used)))
    native.count_entities(walk, used, counts)
    if level in (Level.FUNCTION, Level.MODULE):
        counts = summed(counts, walk.first_visit, walk.visit)
    if level == Level.MODULE:
        counts = counts.sum(axis=0, keepdims=True)
    if level in _SET_NUMBER:
        counts = summed(counts, *_sets(module, level)[:2])
    vectors: Float64Array = counts @ table[used]
    return vectors


def _all_of(count: int) -> tuple[AnyArray, AnyArray]:
    return np.array([0, count], np.uint32), np.arange(count, dtype=np.uint32)


def _sets(module: ParsedModule, level: Level) -> tuple[AnyArray, AnyArray, AnyArray]:
    """`firsts` and `members` of the loops or regions, and their rows among all sets."""
    walk = module.walk
    rows = np.flatnonzero(walk.set_kind == _SET_NUMBER[level])
    counts = np.diff(walk.first_member)[rows]
    firsts = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
    starts = walk.first_member[:-1][rows].astype(np.int64)
    within = np.arange(int(firsts[-1])) - np.repeat(firsts[:-1].astype(np.int64), counts)
    return firsts, walk.member[np.repeat(starts, counts) + within], rows


def _indexed(module: ParsedModule, vectors: Float64Array, level: Level, kind: Kind, precision: Precision) -> Embeddings:
    walk = module.walk
    names = tuple(function.name for function in module.functions)
    numbers = np.arange(walk.functions, dtype=np.int32)
    function, block, instruction = no_index(len(vectors)), no_index(len(vectors)), no_index(len(vectors))
    block_name: tuple[str, ...] = ()
    parent = depth = None
    block_function = np.repeat(numbers, np.diff(walk.first_block))
    if level == Level.FUNCTION:
        defined = walk.declaration == 0
        vectors, function = vectors[defined] if not defined.all() else vectors, numbers[defined]
        block = instruction = no_index(len(vectors))
    elif level == Level.BLOCK:
        function, block, block_name = block_function, positions(walk.first_block), module.block_names
    elif level == Level.INSTRUCTION:
        sizes = np.diff(walk.first_instruction)
        function = np.repeat(block_function, sizes)
        block, instruction = np.repeat(positions(walk.first_block), sizes), positions(walk.first_instruction)
    elif level in _SET_NUMBER:
        rows = _sets(module, level)[2]
        entries = walk.set_entry[rows]
        function, block = as_index(walk.set_function[rows]), positions(walk.first_block)[entries]
        parents = as_index(walk.set_parent[rows])
        parent = np.where(parents >= 0, np.searchsorted(rows, np.maximum(parents, 0)), -1).astype(np.int32)
        depth = as_index(walk.set_depth[rows])
    return Embeddings(
        level=level, kind=kind, precision=precision, vectors=vectors, function=function, block=block,
        instruction=instruction, function_names=names, block_name=block_name, parent=parent, depth=depth,
    )  # fmt: skip
