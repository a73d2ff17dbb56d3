"""`mlgo corpus extract | make | combine | describe`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from pymlgo.cli.corpus import say, say_hints, say_skipped
from pymlgo.cli.json_output import print_json


def configure_extract(parser: argparse.ArgumentParser) -> None:
    """The flags of `mlgo corpus extract`: LLVM's, with dashes, and a few more."""
    parser.add_argument("--input", type=Path, metavar="PATH", help="compile_commands.json, parameter file, folder, …")
    parser.add_argument(
        "--input-type",
        default="json",
        metavar="TYPE",
        help="json (default), params, directory, bazel_aquery or archive",
    )
    parser.add_argument("--output-dir", type=Path, required=True, metavar="DIR", help="the corpus to write")
    parser.add_argument("--num-workers", type=int, metavar="N", help="processes at most (default: hardware threads)")
    parser.add_argument("--llvm-objcopy-path", metavar="PATH", help="read objects with this llvm-objcopy")
    parser.add_argument("--obj-base-dir", type=Path, metavar="DIR", help="name objects relative to this folder")
    parser.add_argument("--cmd-filter", metavar="RE", help="keep modules with an argument that matches, e.g. '^-Oz$'")
    parser.add_argument("--thinlto-build", choices=("distributed", "local"), help="how the build used ThinLTO")
    parser.add_argument("--cmd-section-name", default=".llvmcmd", metavar="NAME", help="default: .llvmcmd")
    parser.add_argument("--bitcode-section-name", default=".llvmbc", metavar="NAME", help="default: .llvmbc")
    parser.add_argument(
        "--level", metavar="FLAG", help="keep modules of this optimization level only, e.g. --level=-Oz"
    )
    parser.add_argument("--keep-optimized", action="store_true", help="keep bitcode that is optimized already")
    parser.add_argument("--license-note", default="", metavar="TEXT", help="for the manifest")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run_extract(arguments: argparse.Namespace) -> int:
    """0 if a module was extracted, else 1."""
    from pymlgo.corpus.embedded import SectionNames
    from pymlgo.corpus.extract import ExtractOptions
    from pymlgo.corpus.inputs import extract_corpus

    result = extract_corpus(
        arguments.input,
        arguments.output_dir,
        input_type=arguments.input_type,
        obj_base_dir=arguments.obj_base_dir,
        options=ExtractOptions(
            cmd_filter=arguments.cmd_filter,
            thinlto=arguments.thinlto_build,
            sections=SectionNames(bitcode=arguments.bitcode_section_name, command=arguments.cmd_section_name),
            objcopy=arguments.llvm_objcopy_path,
            level=arguments.level,
            keep_optimized=arguments.keep_optimized,
            workers=arguments.num_workers,
            license_note=arguments.license_note,
        ),
    )
    if arguments.json:
        print_json("corpus-extract-1", result)
    levels = ", ".join(f"{count} at {level}" for level, count in result.levels.items())
    say(f"{result.modules} modules in {result.output_dir}" + (f" ({levels})" if levels else ""))
    say_skipped(result.skipped, result.examples)
    say_hints(result.hints)
    return 0 if result.modules else 1


def configure_make(parser: argparse.ArgumentParser) -> None:
    """The flags of `mlgo corpus make`."""
    parser.add_argument("--input-dir", type=Path, required=True, metavar="DIR", help="the folder of *.bc files")
    parser.add_argument("--output-dir", type=Path, required=True, metavar="DIR", help="the corpus to write")
    parser.add_argument(
        "--default-args", default="", metavar="FLAGS", help="the modules' command line, e.g. '-cc1 -Oz'"
    )
    parser.add_argument("--license-note", default="", metavar="TEXT", help="for the manifest")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run_make(arguments: argparse.Namespace) -> int:
    """0 if there was a bitcode file, else 1."""
    from pymlgo.corpus.make import make_corpus

    result = make_corpus(
        arguments.input_dir,
        arguments.output_dir,
        default_args=arguments.default_args.split(),
        license_note=arguments.license_note,
    )
    if arguments.json:
        print_json("corpus-make-1", result)
    say(f"{result.modules} modules in {result.output_dir}")
    say("note: what a model learns from these depends on the stage of compilation that the bitcode was taken at")
    say_skipped(result.skipped, result.examples)
    return 0 if result.modules else 1


def configure_combine(parser: argparse.ArgumentParser) -> None:
    """The flags of `mlgo corpus combine`."""
    parser.add_argument("--root-dir", type=Path, required=True, metavar="DIR", help="the folder with the corpora")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run_combine(arguments: argparse.Namespace) -> int:
    """0 if there was a module, else 1."""
    from pymlgo.corpus.make import combine_corpora

    result = combine_corpora(arguments.root_dir)
    if arguments.json:
        print_json("corpus-combine-1", result)
    say(f"{result.modules} modules in {result.output_dir}")
    return 0 if result.modules else 1


def configure_describe(parser: argparse.ArgumentParser) -> None:
    """The flags of `mlgo corpus describe`."""
    parser.add_argument("corpus", type=Path, metavar="CORPUS")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run_describe(arguments: argparse.Namespace) -> int:
    """0 if every module that the description names is usable, else 1."""
    from pymlgo.corpus.describe import describe

    summary = describe(arguments.corpus)
    if arguments.json:
        print_json("corpus-describe-1", summary)
    else:
        print(f"{summary.root}: {summary.modules} modules, {summary.bitcode_bytes:,} bytes of bitcode")
        for title, counts in (
            ("project", summary.projects),
            ("level", summary.levels),
            ("target", summary.targets),
            ("producer", summary.producers),
            ("skipped", summary.skipped),
        ):
            for name, count in counts.items():
                print(f"  {title:<9} {name:<40} {count:>6}")
        if summary.has_thinlto:
            print("  ThinLTO   yes")
        if summary.command_override is not None:
            print(f"  override  {' '.join(summary.command_override)}")
        if summary.license:
            print(f"  license   {summary.license}")
    for name, reason in summary.unusable.items():
        say(f"  unusable {os.fsencode(name).decode(errors='backslashreplace')}: {reason}")
    return 1 if summary.unusable else 0
