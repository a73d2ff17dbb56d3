"""Search by similarity, and a map of a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pymlgo.arrays import Float64Array
from pymlgo.atomic_file import writing
from pymlgo.corpus import project_of
from pymlgo.embed.batch import Failure, Source
from pymlgo.embed.corpus_embedding import Request, embeddings_of
from pymlgo.errors import CorpusError
from pymlgo.optional import need

MAX_LABELLED = 24
"""Projects that a map can show in different colours before they blur; the smallest others share one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A function of a corpus."""

    module: str
    function: str

    def __str__(self) -> str:
        return f"{self.module}:{self.function}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A function and its cosine similarity to the one that was asked for, from -1 to 1."""

    place: Place
    cosine: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FunctionVectors:
    """All functions of a corpus: f64[n, dimension] and where each comes from."""

    places: tuple[Place, ...]
    vectors: Float64Array
    failures: tuple[Failure, ...] = ()


def function_vectors(sources: Sequence[Source], request: Request, *, jobs: int | None = None) -> FunctionVectors:
    """The functions of all modules.

    Raises:
        CorpusError: there is no function.
    """
    places: list[Place] = []
    pieces: list[Float64Array] = []
    failures: list[Failure] = []
    for result in embeddings_of(sources, request, jobs=jobs):
        if isinstance(result, Failure):
            failures.append(result)
            continue
        source, found = result
        places += [Place(module=source.name, function=name) for name in found.names]
        pieces.append(found.vectors)
    if not places:
        reason = f": {failures[0].reason}" if failures else ""
        raise CorpusError(f"there is no function to compare{reason}")
    return FunctionVectors(places=tuple(places), vectors=np.concatenate(pieces), failures=tuple(failures))


def search(wanted: str, among: FunctionVectors, *, limit: int = 10) -> tuple[Place, list[Match]]:
    """The function that `wanted` names (`name` or `module:name`) and its nearest others, best first.

    Raises:
        CorpusError: there is none, or several modules have one.
    """
    module, _, name = wanted.rpartition(":")
    found = [
        row
        for row, place in enumerate(among.places)
        if str(place) == wanted or (place.function == wanted) or (place.function == name and place.module == module)
    ]
    if len(found) != 1:
        if not found:
            raise CorpusError(f"no function is called {wanted!r}", hint=_near(wanted, among))
        shown = ", ".join(str(among.places[row]) for row in found[:3])
        raise CorpusError(f"{len(found)} functions are called {wanted!r}", hint=f"name one as MODULE:FUNCTION: {shown}")
    unit = _unit(among.vectors)
    cosine = unit @ unit[found[0]]
    order = [row for row in np.argsort(-cosine, kind="stable").tolist() if row != found[0]][:limit]
    return among.places[found[0]], [Match(place=among.places[row], cosine=float(cosine[row])) for row in order]


def project_to_plane(vectors: Float64Array) -> Float64Array:
    """f64[n, 2]: the two directions in which the directions of the vectors differ most (PCA of unit vectors)."""
    unit = _unit(vectors)
    centred = unit - unit.mean(axis=0)
    # A function's sign is arbitrary; the largest component decides it, so that a map repeats.
    _, _, axes = np.linalg.svd(centred.T @ centred)
    plane = axes[:2] * np.sign(axes[:2, np.abs(axes[:2]).argmax(axis=1)].diagonal())[:, None]
    points: Float64Array = centred @ plane.T
    return points


def draw_map(among: FunctionVectors, output: Path) -> None:
    """Write a picture (`.svg`, `.png`, `.pdf`): a point for each function, a colour for each project.

    Raises:
        MissingDependency: matplotlib is not installed.
    """
    need("matplotlib", extra="plot", purpose="draw a map").use("agg")
    pyplot = need("matplotlib.pyplot", extra="plot", purpose="draw a map")
    points = project_to_plane(among.vectors)
    projects = np.array([project_of(place.module) for place in among.places])
    names, counts = np.unique(projects, return_counts=True)
    shown = names[np.argsort(-counts, kind="stable")][:MAX_LABELLED]
    figure, axes = pyplot.subplots(figsize=(11, 8), layout="constrained")
    colours = pyplot.get_cmap("turbo")(np.linspace(0.02, 0.98, len(shown)))
    others = ~np.isin(projects, shown)
    if others.any():
        axes.scatter(*points[others].T, s=5, c="0.75", label=f"{len(names) - len(shown)} more", linewidths=0)
    for project, colour in zip(shown.tolist(), colours, strict=True):
        chosen = projects == project
        axes.scatter(*points[chosen].T, s=7, color=colour, alpha=0.7, label=f"{project} ({chosen.sum()})", linewidths=0)
    axes.set_title(f"{len(points)} functions of {len(names)} projects: directions of their embeddings, two main axes")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.legend(markerscale=3, fontsize="small", frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    with writing(output) as stream:
        figure.savefig(stream, format=output.suffix.removeprefix(".") or "svg", dpi=150)
    pyplot.close(figure)


def _unit(vectors: Float64Array) -> Float64Array:
    finite = np.where(np.isfinite(vectors).all(axis=1, keepdims=True), vectors, 0.0)
    unit: Float64Array = finite / np.maximum(np.linalg.norm(finite, axis=1, keepdims=True), 1e-300)
    return unit


def _near(wanted: str, among: FunctionVectors) -> str | None:
    import difflib

    nearest = difflib.get_close_matches(wanted, {place.function for place in among.places}, n=3)
    return f"did you mean {', '.join(nearest)}?" if nearest else None
