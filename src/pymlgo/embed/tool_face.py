"""The command line of `llvm-ir2vec` over this package; `scripts/llvm-ir2vec` starts it.

Its text is the tool's, byte for byte, for triplets, entities, and embeddings of functions and blocks. Embeddings of
single instructions print LLVM IR beside each vector, which takes LLVM's printer: for those the tool itself is called.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pymlgo.embed.embeddings import Level
from pymlgo.embed.entities import ir_entities
from pymlgo.embed.levels import embed
from pymlgo.embed.module import ParsedModule, ReadOptions, read_ir, read_mir
from pymlgo.embed.tool import IR2VecTool
from pymlgo.embed.vocabulary import MIRVocabulary, MIRWeights, Vocabulary, Weights
from pymlgo.errors import MLGOError, VocabularyError

_LEVELS = {"func": Level.FUNCTION, "bb": Level.BLOCK}


def main(argv: Sequence[str]) -> int:
    """The exit code: 0, or 1 after an `error:` line as the tool prints it."""
    arguments = _parser().parse_args(argv)
    try:
        if arguments.command == "embeddings" and arguments.level == "inst":
            output = IR2VecTool.find().output(*argv)
        else:
            output = "".join(_text(arguments)).encode("utf-8", "surrogateescape")
    except MLGOError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if arguments.output == "-":
        sys.stdout.buffer.write(output)
        sys.stdout.buffer.flush()
    else:
        Path(arguments.output).write_bytes(output)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="llvm-ir2vec", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("triplets", "entities", "embeddings"):
        command = commands.add_parser(name)
        command.add_argument("input", nargs="?", default="-")
        command.add_argument("-o", dest="output", default="-")
        command.add_argument("--mode", "-mode", choices=("llvm", "mir"), default="llvm")
        if name == "embeddings":
            _add_embedding_options(command)
    return parser


def _add_embedding_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--level", "-level", choices=("inst", "bb", "func"), default="func")
    command.add_argument("--function", "-function", default="")
    for prefix, factors in (("ir2vec", {"opc": 1.0, "type": 0.5, "arg": 0.2}),
                            ("mir2vec", {"opc": 1.0, "common-operand": 1.0, "reg-operand": 1.0})):  # fmt: skip
        command.add_argument(f"--{prefix}-vocab-path", f"-{prefix}-vocab-path", default="")
        command.add_argument(
            f"--{prefix}-kind", f"-{prefix}-kind", choices=("symbolic", "flow-aware"), default="symbolic"
        )
        for part, default in factors.items():
            command.add_argument(f"--{prefix}-{part}-weight", f"-{prefix}-{part}-weight", type=float, default=default)


def _text(arguments: argparse.Namespace) -> Iterator[str]:
    mir = arguments.mode == "mir"
    if arguments.command == "entities" and not mir:
        yield ir_entities().text()
        return
    flow = arguments.command == "embeddings" and arguments.ir2vec_kind == "flow-aware"
    module = _module(arguments.input, mir=mir, definitions=flow)
    if arguments.command == "entities":
        yield module.entities.text()
    elif arguments.command == "triplets":
        yield module.walk.triplets_text().decode()
    else:
        yield from _embeddings(arguments, module)


def _module(name: str, *, mir: bool, definitions: bool) -> ParsedModule:
    return (read_mir if mir else read_ir)(Path(name), options=ReadOptions(definitions=definitions))


def _embeddings(arguments: argparse.Namespace, module: ParsedModule) -> Iterator[str]:
    if arguments.function and module.function(arguments.function).is_declaration:
        yield f"Function {arguments.function} is a declaration, skipping.\n"
        return
    level = _LEVELS[arguments.level]
    if module.is_mir:
        mir_vocabulary = MIRVocabulary.load(_path(arguments.mir2vec_vocab_path, "mir2vec"))
        mir_weights = MIRWeights(
            opcode=arguments.mir2vec_opc_weight,
            common_operand=arguments.mir2vec_common_operand_weight,
            register=arguments.mir2vec_reg_operand_weight,
        )
        found = embed(module, mir_vocabulary, level=level, weights=mir_weights)
    else:
        vocabulary = Vocabulary.load(_path(arguments.ir2vec_vocab_path, "ir2vec"))
        weights = Weights(
            opcode=arguments.ir2vec_opc_weight,
            type=arguments.ir2vec_type_weight,
            argument=arguments.ir2vec_arg_weight,
        )
        found = embed(module, vocabulary, level=level, kind=arguments.ir2vec_kind, weights=weights)
    shown = -1
    for row, number in enumerate(found.function.tolist()):
        name = _printed_name(module, number)
        if arguments.function not in ("", name):
            continue
        if number != shown:
            shown = number
            yield f"MIR2Vec embeddings for machine function {name}:\n" if module.is_mir else f"Function: {name}\n"
            if module.is_mir:
                yield "Function vector: " if level == Level.FUNCTION else "Basic block vectors:\n"
        if level == Level.BLOCK:
            yield f"MBB {found.block_name[row]}: " if module.is_mir else f"{found.block_name[row]}:"
        yield _vector(found.vectors[row].tolist())


def _printed_name(module: ParsedModule, number: int) -> str:
    """The name as LLVM prints it: nothing for a function without one."""
    name: bytes = module.walk.function_names[number]
    return name.decode("utf-8", "surrogateescape")


def _vector(values: Sequence[float]) -> str:
    return " [" + "".join(f" {value:.2f} " for value in values) + "]\n"


def _path(given: str, prefix: str) -> str:
    if not given:
        raise VocabularyError(
            f"{prefix.upper().replace('VEC', 'Vec')} vocabulary file path not specified; "
            f"You may need to set it using --{prefix}-vocab-path"
        )
    return given
