"""TransE: learns a vector for each entity such that head + relation lies near tail.

Source: A. Bordes et al., Translating Embeddings for Modeling Multi-relational Data, NeurIPS 2013, as OpenKE trains it
for IR2Vec: L1 distance of normalised vectors, margin ranking loss, filtered negatives, Adam. Departures: triplets are
drawn by a damped frequency where wanted; the gradient is written out here, so a run needs numpy alone and repeats bit
for bit.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from pymlgo.arrays import Float64Array, Int32Array, Int64Array
from pymlgo.atomic_file import write_bytes
from pymlgo.embed.triplets import KnowledgeGraph
from pymlgo.errors import ConfigError, CorpusError

CHECKPOINT_SCHEMA = "pymlgo/transe-1"
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
"""Adam's constants. Source: D. Kingma, J. Ba, Adam, ICLR 2015."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransESettings:
    """How to train. Defaults are what gave the shipped IR vocabulary."""

    dimension: int = 75
    """length of each vector"""
    epochs: int = 300
    """passes over as many triplets as the graph has"""
    batch: int = 512
    """triplets in one step"""
    negatives: int = 8
    """corrupted triplets for each true one"""
    margin: float = 2.0
    """by how much a corrupted triplet should be farther"""
    learning_rate: float = 0.005
    """Adam's step; falls linearly to a tenth"""
    frequency_power: float = 0.25
    """a triplet is drawn in proportion to its count to this power; 0 counts each once"""
    seed: int = 0
    """of every random choice"""

    def __post_init__(self) -> None:
        positive = ("dimension", "epochs", "batch", "negatives", "margin", "learning_rate")
        for name in positive:
            if not getattr(self, name) > 0:
                raise ConfigError(f"expected a number above 0, found {getattr(self, name)}", key=name)
        if not 0 <= self.frequency_power <= 1:
            raise ConfigError(f"expected a number from 0 to 1, found {self.frequency_power}", key="frequency_power")


@dataclass(slots=True, eq=False)
class TransE:
    """The state of a run after `epoch` epochs; `step` is Adam's counter."""

    entities: Float64Array
    """f64[n_used, dimension]: for the graph's `used_entities`; the others have nothing to learn from."""

    relations: Float64Array
    moments: list[Float64Array]
    epoch: int
    step: int
    rng: np.random.Generator

    @classmethod
    def start(cls, graph: KnowledgeGraph, settings: TransESettings) -> TransE:
        """Xavier-uniform vectors from the settings' seed."""
        rng = np.random.default_rng(settings.seed)
        sizes = (len(graph.used_entities()), len(graph.relations))
        entities, relations = (_xavier(rng, size, settings.dimension) for size in sizes)
        moments = [np.zeros_like(each) for each in (entities, entities, relations, relations)]
        return cls(entities, relations, moments, epoch=0, step=0, rng=rng)

    def save(self, path: Path, fingerprint: str) -> None:
        """Write a checkpoint that `load` continues from exactly."""
        buffer = io.BytesIO()
        about = {
            "schema": CHECKPOINT_SCHEMA,
            "fingerprint": fingerprint,
            "epoch": self.epoch,
            "step": self.step,
            "rng": self.rng.bit_generator.state,
        }
        first, second, third, fourth = self.moments
        np.savez(
            buffer,
            about=np.frombuffer(json.dumps(about).encode(), np.uint8),
            entities=self.entities,
            relations=self.relations,
            moment_0=first,
            moment_1=second,
            moment_2=third,
            moment_3=fourth,
        )
        write_bytes(path, buffer.getvalue())

    @classmethod
    def load(cls, path: Path, fingerprint: str) -> TransE:
        """The state of a checkpoint.

        Raises:
            CorpusError: it is damaged, or of a run with other settings or triplets.
        """
        try:
            with np.load(path, allow_pickle=False) as stored:
                about = json.loads(stored["about"].tobytes())
                arrays = [stored[name] for name in ("entities", "relations", *(f"moment_{n}" for n in range(4)))]
            if about["fingerprint"] != fingerprint:
                raise CorpusError(f"{path} is of a run with other settings or triplets", hint="remove it to start anew")
            rng = np.random.default_rng()
            rng.bit_generator.state = about["rng"]
            return cls(arrays[0], arrays[1], arrays[2:], about["epoch"], about["step"], rng)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CorpusError(f"{path} is no checkpoint: {error}", hint="remove it to start anew") from error


def train(
    graph: KnowledgeGraph,
    settings: TransESettings,
    *,
    checkpoint: Path | None = None,
    each_epochs: int = 50,
    on_epoch: Callable[[int, float], None] = lambda epoch, loss: None,
) -> TransE:
    """A trained model; equal inputs give equal bits on one machine, interrupted or not.

    Args:
        graph: the triplets.
        settings: how to train.
        checkpoint: where the state is kept; a run continues from it if it is there.
        each_epochs: epochs between two checkpoints.
        on_epoch: called with each finished epoch and its mean loss.

    Raises:
        CorpusError: the graph is empty, or the checkpoint is of another run.
    """
    if not len(graph.triplets):
        raise CorpusError("there are no triplets to train on")
    fingerprint = fingerprint_of(graph, settings)
    resumed = checkpoint is not None and checkpoint.exists()
    model = TransE.load(checkpoint, fingerprint) if checkpoint and resumed else TransE.start(graph, settings)
    rows = graph.compact()
    known = _keys(rows[:, 0], rows[:, 1], rows[:, 2])
    known.sort()
    weights = graph.counts.astype(np.float64) ** settings.frequency_power
    while model.epoch < settings.epochs:
        loss = _epoch(model, rows, settings, known, weights / weights.sum())
        model.epoch += 1
        on_epoch(model.epoch, loss)
        if checkpoint and (model.epoch % each_epochs == 0 or model.epoch == settings.epochs):
            model.save(checkpoint, fingerprint)
    return model


def fingerprint_of(graph: KnowledgeGraph, settings: TransESettings) -> str:
    """Equal for runs whose result must be equal."""
    digest = hashlib.blake2b(json.dumps(asdict(settings), sort_keys=True).encode(), digest_size=16)
    for part in (graph.triplets, graph.counts):
        digest.update(np.ascontiguousarray(part).tobytes())
    digest.update("\n".join(graph.entities.names).encode())
    return digest.hexdigest()


def _xavier(rng: np.random.Generator, count: int, dimension: int) -> Float64Array:
    limit = np.sqrt(6.0 / (count + dimension))
    return rng.uniform(-limit, limit, (count, dimension))


def _keys(heads: Int32Array, tails: Int32Array, relations: Int32Array) -> Int64Array:
    """One number for each triplet; entity ids are below 2**16."""
    keys: Int64Array = (heads.astype(np.int64) << 44) | (tails.astype(np.int64) << 28) | relations.astype(np.int64)
    return keys


def _epoch(
    model: TransE, triplets: Int32Array, settings: TransESettings, known: Int64Array, weights: Float64Array
) -> float:
    drawn = model.rng.choice(len(triplets), size=len(triplets), p=weights)
    losses: list[float] = []
    progress = model.epoch / settings.epochs
    rate = settings.learning_rate * (1.0 - 0.9 * progress)
    for start in range(0, len(drawn), settings.batch):
        rows = triplets[drawn[start : start + settings.batch]]
        losses.append(_step(model, rows, known, settings, rate))
    return float(np.mean(losses))


def _corrupted(
    model: TransE, rows: Int32Array, known: Int64Array, negatives: int
) -> tuple[Int32Array, Int32Array, Int32Array]:
    """Heads, tails and relations [n * negatives] with a random head or tail that makes no known triplet."""
    heads, tails, relations = (np.repeat(rows[:, column], negatives) for column in range(3))
    count = len(model.entities)
    swap_head = model.rng.random(len(heads)) < 0.5
    for _ in range(4):  # what is still a true triplet after four draws stays; it does little harm
        keys = _keys(heads, tails, relations)
        places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        again = np.flatnonzero(known[places] == keys)
        if not len(again):
            break
        fresh = model.rng.integers(0, count, len(again), dtype=np.int32)
        of_head = swap_head[again]
        heads[again[of_head]] = fresh[of_head]
        tails[again[~of_head]] = fresh[~of_head]
    return heads, tails, relations


def _step(model: TransE, rows: Int32Array, known: Int64Array, settings: TransESettings, rate: float) -> float:
    heads, tails, relations = rows[:, 0], rows[:, 1], rows[:, 2]
    bad_heads, bad_tails, bad_relations = _corrupted(model, rows, known, settings.negatives)
    unit_entities, entity_lengths = _normalised(model.entities)
    unit_relations, relation_lengths = _normalised(model.relations)
    good = unit_entities[heads] + unit_relations[relations] - unit_entities[tails]
    bad = unit_entities[bad_heads] + unit_relations[bad_relations] - unit_entities[bad_tails]
    good_distance = np.abs(good).sum(axis=1)
    bad_distance = np.abs(bad).sum(axis=1)
    slack = settings.margin + np.repeat(good_distance, settings.negatives) - bad_distance
    active = slack > 0
    scale = 1.0 / len(slack)
    # d loss / d distance: each active pair pulls its true triplet and pushes its corrupted one.
    pull = active.reshape(-1, settings.negatives).sum(axis=1) * scale
    good_gradient = np.sign(good) * pull[:, None]
    bad_gradient = np.sign(bad) * (active * -scale)[:, None]
    entity_gradient = np.zeros_like(model.entities)
    relation_gradient = np.zeros_like(model.relations)
    for gradient, head, tail, relation in (
        (good_gradient, heads, tails, relations),
        (bad_gradient, bad_heads, bad_tails, bad_relations),
    ):
        _add_rows(entity_gradient, head, gradient)
        _add_rows(entity_gradient, tail, -gradient)
        _add_rows(relation_gradient, relation, gradient)
    model.step += 1
    entity_gradient = _through_normalisation(entity_gradient, unit_entities, entity_lengths)
    relation_gradient = _through_normalisation(relation_gradient, unit_relations, relation_lengths)
    first, second, third, fourth = model.moments
    _adam(model.entities, entity_gradient, first, second, model.step, rate)
    _adam(model.relations, relation_gradient, third, fourth, model.step, rate)
    return float(np.maximum(slack, 0.0).mean())


def _add_rows(to: Float64Array, places: Int32Array, rows: Float64Array) -> None:
    """`to[places] += rows` where places repeat: sorted runs are summed first, which is several times as fast."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    to[ordered[starts]] += np.add.reduceat(rows[order], starts, axis=0)


def _normalised(rows: Float64Array) -> tuple[Float64Array, Float64Array]:
    lengths = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return rows / lengths, lengths


def _through_normalisation(gradient: Float64Array, unit: Float64Array, lengths: Float64Array) -> Float64Array:
    along = (gradient * unit).sum(axis=1, keepdims=True)
    result: Float64Array = (gradient - unit * along) / lengths
    return result


def _adam(
    rows: Float64Array, gradient: Float64Array, first: Float64Array, second: Float64Array, step: int, rate: float
) -> None:
    first *= BETA_1
    first += (1 - BETA_1) * gradient
    second *= BETA_2
    second += (1 - BETA_2) * gradient**2
    corrected = first / (1 - BETA_1**step)
    rows -= rate * corrected / (np.sqrt(second / (1 - BETA_2**step)) + EPSILON)
