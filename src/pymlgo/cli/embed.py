"""`mlgo embed`: IR2Vec and MIR2Vec embeddings, and what they are good for."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from pymlgo.cli import embed_vocabulary

if TYPE_CHECKING:
    from pymlgo.embed.batch import Failure
    from pymlgo.embed.corpus_embedding import Request
    from pymlgo.embed.levels import AnyVocabulary

LEVELS = ("function", "block", "instruction", "module", "loop", "region")
KINDS = ("symbolic", "flow-aware", "flow-normalized")


def configure(parser: argparse.ArgumentParser) -> None:
    """The verb's command line."""
    verbs = parser.add_subparsers(dest="embed_verb", metavar="VERB", required=True)

    ir = verbs.add_parser("ir", help="IR2Vec vectors of a module or a corpus")
    _add_input(ir, "bitcode or IR text")
    ir.add_argument("--kind", choices=KINDS, default="symbolic", help="default: symbolic; flow-normalized is ours")
    ir.add_argument("--weights", type=_weights, metavar="OPCODE,TYPE,ARGUMENT", help="default: 1,0.5,0.2")
    ir.add_argument("--through-tool", action="store_true", help="let llvm-ir2vec compute: two decimals only")
    ir.set_defaults(work=_ir)

    mir = verbs.add_parser("mir", help="MIR2Vec vectors of a module or a corpus")
    _add_input(mir, ".mir, or bitcode or IR text, which LLVM's code generator turns into machine IR")
    mir.add_argument("--weights", type=_weights, metavar="OPCODE,COMMON,REGISTER", help="default: 1,1,1")
    mir.add_argument("--stop-after", metavar="PASS", help="where code generation stops (default: finalize-isel)")
    mir.add_argument("--opt-level", type=int, choices=range(4), default=2, help="of code generation (default: 2)")
    mir.set_defaults(work=_mir)

    search = verbs.add_parser("search", help="the functions most similar to one")
    search.add_argument("function", metavar="FUNCTION", help="its name, or MODULE:NAME")
    search.add_argument("--corpus", type=Path, required=True, action="append", metavar="DIR", help="where to look")
    search.add_argument("--limit", type=int, default=10, metavar="N", help="functions to show (default: 10)")
    search.add_argument("--json", action="store_true", help="print one JSON object")
    _add_common(search)
    search.set_defaults(work=_search)

    plot = verbs.add_parser("plot", help="a map of a corpus: each function a point, similar ones close")
    plot.add_argument("corpus", type=Path, nargs="+", metavar="CORPUS", help="a corpus folder or modules")
    plot.add_argument("-o", "--output", type=Path, required=True, metavar="PICTURE", help=".svg, .png or .pdf")
    _add_common(plot)
    plot.set_defaults(work=_plot)

    embed_vocabulary.configure(verbs)


def run(arguments: argparse.Namespace) -> int:
    """The exit code of the verb; warnings of vocabularies are printed as `warning:` lines."""
    from pymlgo.embed.vocabulary import VocabularyWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", VocabularyWarning)
        try:
            return int(arguments.work(arguments))
        finally:
            for each in caught:
                print(f"warning: {each.message}", file=sys.stderr)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--vocabulary", metavar="JSON", help="as LLVM loads it, `-` for stdin (default: the package's own)"
    )
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="modules at once (default: all hardware threads)")


def _add_input(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("inputs", type=Path, nargs="+", metavar="FILE", help=f"{what}; a folder is a corpus")
    parser.add_argument(
        "--level", choices=LEVELS, default="function", help="what a vector stands for (default: function)"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help=".npz or .parquet")
    parser.add_argument("--fast", action="store_true", help="counts times table: not LLVM's very bits")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64", help="default: float64, as LLVM")
    parser.add_argument("--json", action="store_true", help="print one JSON object about what was written")
    _add_common(parser)


def _weights(text: str) -> tuple[float, float, float]:
    try:
        first, second, third = (float(each) for each in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected three numbers with commas between, found {text!r}") from error
    return first, second, third


def _ir(arguments: argparse.Namespace) -> int:
    from pymlgo.embed.core import has_core
    from pymlgo.embed.corpus_embedding import Request
    from pymlgo.embed.embeddings import Kind, Level
    from pymlgo.embed.entities import ir_entities
    from pymlgo.embed.shipped import shipped_vocabulary
    from pymlgo.embed.vocabulary import Vocabulary, Weights

    if arguments.through_tool or not has_core():
        return _through_tool(arguments)
    vocabulary = Vocabulary.load(arguments.vocabulary) if arguments.vocabulary else shipped_vocabulary()
    vocabulary.warn_about_unknown_keys(ir_entities())
    weights = arguments.weights
    request = Request(
        vocabulary=vocabulary,
        level=Level(arguments.level),
        kind=Kind(arguments.kind),
        weights=Weights(opcode=weights[0], type=weights[1], argument=weights[2]) if weights else None,
        exact=not arguments.fast,
        dtype=arguments.dtype,
    )
    return _write(arguments, request)


def _mir(arguments: argparse.Namespace) -> int:
    from pymlgo.embed.corpus_embedding import Request
    from pymlgo.embed.embeddings import Level
    from pymlgo.embed.module import DEFAULT_STOP
    from pymlgo.embed.shipped import shipped_mir_vocabulary
    from pymlgo.embed.vocabulary import MIRVocabulary, MIRWeights

    vocabulary = MIRVocabulary.load(arguments.vocabulary) if arguments.vocabulary else shipped_mir_vocabulary()
    weights = arguments.weights
    request = Request(
        vocabulary=vocabulary,
        level=Level(arguments.level),
        weights=MIRWeights(opcode=weights[0], common_operand=weights[1], register=weights[2]) if weights else None,
        exact=not arguments.fast,
        dtype=arguments.dtype,
        stop_after=arguments.stop_after or DEFAULT_STOP,
        opt_level=arguments.opt_level,
    )
    return _write(arguments, request)


def _write(arguments: argparse.Namespace, request: Request) -> int:
    from pymlgo.embed.batch import sources_of
    from pymlgo.embed.corpus_embedding import write_embeddings, write_module

    sources, unusable = sources_of(arguments.inputs)
    if len(arguments.inputs) == 1 and not arguments.inputs[0].is_dir():
        written = write_module(sources[0], request, arguments.output)
    else:
        written = write_embeddings(sources, request, arguments.output, jobs=arguments.jobs)
    if arguments.json:
        from pymlgo.cli.json_output import print_json

        print_json("embed-1", written)
    else:
        print(f"{written.output}: {written.rows} vectors of {written.dimension} numbers", file=sys.stderr)
    if written.overflowed:
        print(
            f"warning: {written.overflowed} vectors overflow: flow-aware vectors grow along chains of instructions\n"
            "hint: --kind flow-normalized keeps them bounded",
            file=sys.stderr,
        )
    return _report((*unusable, *written.failures), len(sources))


def _report(failures: tuple[Failure, ...], total: int) -> int:
    for failure in failures:
        print(f"failed: {failure.name}: {failure.reason}", file=sys.stderr)
    if failures:
        print(f"{len(failures)} of {total} modules failed", file=sys.stderr)
    return 1 if failures else 0


def _through_tool(arguments: argparse.Namespace) -> int:
    from pymlgo.embed.embeddings import Kind, Level
    from pymlgo.embed.output import rows_file
    from pymlgo.embed.shipped import FOLDER, SHIPPED
    from pymlgo.embed.tool import IR2VecTool
    from pymlgo.errors import ConfigError

    if len(arguments.inputs) != 1 or arguments.inputs[0].is_dir():
        raise ConfigError("llvm-ir2vec takes one module", hint="corpora take the native core")
    vocabulary = Path(arguments.vocabulary or FOLDER / SHIPPED["ir"])
    found = IR2VecTool.find().embed(
        arguments.inputs[0], vocabulary, level=Level(arguments.level), kind=Kind(arguments.kind)
    )
    with rows_file(arguments.output) as file:
        file.add(found.columns())
    print(f"{arguments.output}: {len(found)} vectors through llvm-ir2vec, which prints two decimals", file=sys.stderr)
    return 0


def _vocabulary(arguments: argparse.Namespace) -> AnyVocabulary:
    from pymlgo.embed.shipped import shipped_vocabulary
    from pymlgo.embed.vocabulary import Vocabulary

    return Vocabulary.load(arguments.vocabulary) if arguments.vocabulary else shipped_vocabulary()


def _search(arguments: argparse.Namespace) -> int:
    from pymlgo.embed.batch import sources_of
    from pymlgo.embed.corpus_embedding import Request
    from pymlgo.embed.similarity import function_vectors, search

    sources, unusable = sources_of(arguments.corpus)
    among = function_vectors(sources, Request(vocabulary=_vocabulary(arguments)), jobs=arguments.jobs)
    place, matches = search(arguments.function, among, limit=arguments.limit)
    if arguments.json:
        from pymlgo.cli.json_output import print_json

        print_json("embed-search-1", {"function": place, "matches": matches})
    else:
        for match in matches:
            print(f"{match.cosine:.4f}  {match.place}")
    return _report((*unusable, *among.failures), len(sources))


def _plot(arguments: argparse.Namespace) -> int:
    from pymlgo.embed.batch import sources_of
    from pymlgo.embed.corpus_embedding import Request
    from pymlgo.embed.similarity import draw_map, function_vectors

    sources, unusable = sources_of(arguments.corpus)
    among = function_vectors(sources, Request(vocabulary=_vocabulary(arguments)), jobs=arguments.jobs)
    draw_map(among, arguments.output)
    print(f"{arguments.output}: {len(among.places)} functions", file=sys.stderr)
    return _report((*unusable, *among.failures), len(sources))
