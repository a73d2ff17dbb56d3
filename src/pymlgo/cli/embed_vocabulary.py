"""The part of `mlgo embed` about vocabularies: triplets, entities, train, inspect, convert."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pymlgo.embed.levels import AnyVocabulary
    from pymlgo.embed.module import ParsedModule

MODES = ("llvm", "mir")


def configure(verbs: argparse._SubParsersAction[Any]) -> None:
    """Add these verbs to the command line of `mlgo embed`."""
    triplets = verbs.add_parser("triplets", help="print triplets as llvm-ir2vec does, or write OpenKE's files")
    triplets.add_argument("inputs", type=Path, nargs="+", metavar="FILE", help="a module, `-` for stdin, or a corpus")
    triplets.add_argument("--mode", choices=MODES, default="llvm", help="IR or machine IR (default: llvm)")
    triplets.add_argument("--openke", type=Path, metavar="DIR", help="write OpenKE's three files and frequencies there")
    triplets.add_argument("--predicates", action="store_true", help="with --openke: also predicates of comparisons")
    _add_jobs(triplets)
    triplets.set_defaults(work=_triplets)

    entities = verbs.add_parser("entities", help="print entities as llvm-ir2vec does")
    entities.add_argument("input", type=Path, nargs="?", metavar="FILE", help="with --mode mir: what says the target")
    entities.add_argument("--mode", choices=MODES, default="llvm", help="IR or machine IR (default: llvm)")
    entities.set_defaults(work=_entities)

    _configure_train(verbs)

    inspect = verbs.add_parser("inspect", help="what a vocabulary holds, and what of some code it lacks")
    inspect.add_argument("vocabulary", nargs="?", metavar="JSON", help="as LLVM loads it")
    inspect.add_argument("--shipped", action="store_true", help="the vocabularies of this package")
    inspect.add_argument("--mode", choices=MODES, default="llvm", help="IR or machine IR (default: llvm)")
    inspect.add_argument("--corpus", type=Path, action="append", metavar="DIR", help="code to check the coverage of")
    inspect.add_argument("--json", action="store_true", help="print one JSON object")
    _add_jobs(inspect)
    inspect.set_defaults(work=_inspect)

    convert = verbs.add_parser("convert", help="turn a vocabulary of another form into the JSON that LLVM 22 loads")
    convert.add_argument("input", type=Path, metavar="FILE")
    convert.add_argument("--from", dest="form", choices=("iith-text", "prefixed-mir"), required=True, help="its form")
    convert.add_argument("-o", "--output", type=Path, required=True, metavar="JSON")
    convert.set_defaults(work=_convert)


def _configure_train(verbs: argparse._SubParsersAction[Any]) -> None:
    train = verbs.add_parser("train", help="learn a vocabulary from a corpus")
    train.add_argument("inputs", type=Path, nargs="+", metavar="CORPUS", help="corpus folders and modules")
    train.add_argument("-o", "--output", type=Path, required=True, metavar="JSON", help="the vocabulary")
    train.add_argument("--mode", choices=MODES, default="llvm", help="IR or machine IR (default: llvm)")
    train.add_argument(
        "--levels",
        default="as-is",
        metavar="LIST",
        help="opt levels to read each module at, e.g. as-is,O2 (default: as-is)",
    )
    train.add_argument(
        "--stops", metavar="LIST", help="mir: passes to stop code generation after (default: finalize-isel)"
    )
    train.add_argument("--config", type=Path, metavar="TOML", help="training settings")
    for flag, kind in (("dimension", int), ("epochs", int), ("batch", int), ("negatives", int), ("margin", float),
                       ("learning-rate", float), ("frequency-power", float), ("seed", int)):  # fmt: skip
        train.add_argument(f"--{flag}", type=kind, metavar="N", help=_setting_help(flag))
    train.add_argument("--checkpoint", type=Path, metavar="FILE", help="keep the state there and continue from it")
    train.add_argument("--provenance", default="", metavar="TEXT", help="what the corpus is, for the file")
    train.add_argument("--licence", default="", metavar="TEXT", help="of the vocabulary, for the file")
    train.add_argument("--json", action="store_true", help="print one JSON object")
    _add_jobs(train)
    train.set_defaults(work=_train)


def _add_jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="modules at once (default: all hardware threads)")


def _setting_help(flag: str) -> str:
    return {
        "dimension": "length of each vector (default: 75)",
        "epochs": "passes over the triplets (default: 300)",
        "batch": "triplets in one step (default: 512)",
        "negatives": "corrupted triplets for each true one (default: 8)",
        "margin": "by how much a corrupted triplet should be farther (default: 2)",
        "learning-rate": "Adam's step (default: 0.005)",
        "frequency-power": "a triplet is drawn by its count to this power (default: 0.25)",
        "seed": "of every random choice (default: 0)",
    }[flag]


def _module(path: Path, mode: str) -> ParsedModule:
    from pymlgo.embed.module import ReadOptions, read_ir, read_mir

    read = read_mir if mode == "mir" else read_ir
    return read(path, options=ReadOptions(definitions=False))


def _triplets(arguments: argparse.Namespace) -> int:
    from pymlgo.embed.batch import sources_of
    from pymlgo.embed.triplets import Reading, corpus_graph
    from pymlgo.errors import ConfigError

    if arguments.openke is None:
        if len(arguments.inputs) != 1 or arguments.inputs[0].is_dir():
            raise ConfigError("triplets of several modules go to a folder", hint="--openke DIR")
        sys.stdout.buffer.write(_module(arguments.inputs[0], arguments.mode).walk.triplets_text())
        sys.stdout.buffer.flush()
        return 0
    sources, unusable = sources_of(arguments.inputs)
    reading = Reading(mir=arguments.mode == "mir", predicates=arguments.predicates)
    graph, failures = corpus_graph(sources, reading, jobs=arguments.jobs)
    graph.save_openke(arguments.openke)
    print(f"{arguments.openke}: {len(graph.triplets)} triplets, {graph.counts.sum()} occurrences", file=sys.stderr)
    return _report_failures((*unusable, *failures))


def _entities(arguments: argparse.Namespace) -> int:
    from pymlgo.embed.core import has_core
    from pymlgo.embed.entities import ir_entities
    from pymlgo.embed.tool import IR2VecTool
    from pymlgo.errors import ConfigError

    if arguments.mode == "llvm":
        text = (
            ir_entities().text()
            if has_core()
            else IR2VecTool.find().output("entities", "--mode=llvm", "/dev/null").decode()
        )
        sys.stdout.write(text)
        return 0
    if arguments.input is None:
        raise ConfigError("which target? name a .mir or IR file", key="FILE")
    sys.stdout.write(_module(arguments.input, "mir").entities.text())
    return 0


def _train(arguments: argparse.Namespace) -> int:
    import dataclasses

    from pymlgo.config import load_config
    from pymlgo.embed.batch import sources_of
    from pymlgo.embed.module import DEFAULT_STOP
    from pymlgo.embed.transe import TransESettings
    from pymlgo.embed.triplets import Reading
    from pymlgo.embed.vocabulary_training import train_vocabulary

    flags = {field.name: getattr(arguments, field.name) for field in dataclasses.fields(TransESettings)}
    settings = load_config(TransESettings, arguments.config, flags)
    sources, unusable = sources_of(arguments.inputs)
    mir = arguments.mode == "mir"
    levels, stops = tuple(arguments.levels.split(",")), tuple((arguments.stops or DEFAULT_STOP).split(","))
    corpus = arguments.provenance or ", ".join(path.name for path in arguments.inputs)
    trained = train_vocabulary(
        sources,
        Reading(mir=mir, predicates=not mir, levels=levels, stops=stops),
        settings,
        provenance={"corpus": corpus, "licence": arguments.licence},
        checkpoint=arguments.checkpoint,
        jobs=arguments.jobs,
    )
    trained.vocabulary.save(arguments.output)
    quality = trained.quality
    if arguments.json:
        from pymlgo.cli.json_output import print_json

        print_json("embed-train-1", {"output": arguments.output, "triplets": trained.triplets, "quality": quality})
    else:
        print(
            f"{arguments.output}: {trained.triplets} triplets, hit@1 {quality.hit_at_1:.3f}, "
            f"hit@10 {quality.hit_at_10:.3f}, analogies {quality.analogies_right}/{quality.analogies_asked}",
            file=sys.stderr,
        )
    return _report_failures((*unusable, *trained.failures))


def _report_failures(failures: tuple[Any, ...]) -> int:
    for failure in failures:
        print(f"failed: {failure.name}: {failure.reason}", file=sys.stderr)
    return 1 if failures else 0


def _inspect(arguments: argparse.Namespace) -> int:
    from pymlgo.embed.inspection import inspect_vocabulary
    from pymlgo.embed.shipped import FOLDER, SHIPPED
    from pymlgo.errors import ConfigError

    if arguments.shipped:
        for name, file in SHIPPED.items():
            print(f"{name}\t{FOLDER / file}")
        return 0
    if arguments.vocabulary is None:
        raise ConfigError("which vocabulary?", key="JSON", hint="--shipped lists the package's own")
    vocabulary = _loaded(arguments)
    found = inspect_vocabulary(vocabulary, arguments.corpus or (), jobs=arguments.jobs)
    if arguments.json:
        from pymlgo.cli.json_output import print_json

        print_json("embed-inspect-1", found)
    else:
        print(found.text())
    return 0


def _loaded(arguments: argparse.Namespace) -> AnyVocabulary:
    from pymlgo.embed.vocabulary import MIRVocabulary, Vocabulary

    return (MIRVocabulary if arguments.mode == "mir" else Vocabulary).load(arguments.vocabulary)


def _convert(arguments: argparse.Namespace) -> int:
    from pymlgo.embed.convert import from_iith_text, from_prefixed_mir
    from pymlgo.embed.entities import ir_entities
    from pymlgo.errors import VocabularyError

    try:
        text = arguments.input.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise VocabularyError(f"{arguments.input}: {error}") from error
    name = arguments.input.name
    if arguments.form == "iith-text":
        from_iith_text(text, ir_entities(), name=name).save(arguments.output)
    else:
        from_prefixed_mir(text, name=name).save(arguments.output)
    return 0
