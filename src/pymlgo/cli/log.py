"""`mlgo log`: look at training logs, count them, and turn them into other forms."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pymlgo.cli import log_record

if TYPE_CHECKING:
    from pymlgo.training_log import TrainingLog

FORMS = ("jsonl", "npz", "parquet")


def configure(parser: argparse.ArgumentParser) -> None:
    """The verb's command line."""
    verbs = parser.add_subparsers(dest="log_verb", metavar="VERB", required=True)

    show = verbs.add_parser("show", help="print a log's header and observations")
    show.add_argument("file", type=Path, metavar="FILE")
    show.add_argument("--context", metavar="NAME", help="only contexts of this name")
    show.add_argument("--limit", type=int, default=10, metavar="N", help="observations to print (default: 10)")
    show.set_defaults(work=_show)

    stats = verbs.add_parser("stats", help="count a log's contexts and observations, and say what each feature holds")
    stats.add_argument("file", type=Path, metavar="FILE")
    stats.add_argument("--json", action="store_true", help="print one JSON object")
    stats.set_defaults(work=_stats)

    export = verbs.add_parser("export", help="write a log as JSON lines, npz or Parquet")
    export.add_argument("file", type=Path, metavar="FILE")
    export.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="the file to write; jsonl goes to stdout without"
    )
    export.add_argument("--format", choices=FORMS, help="by default what OUT ends in, else jsonl")
    export.set_defaults(work=_export)

    log_record.configure(verbs.add_parser("record", help="record a stock clang's decisions and what came of them"))


def run(arguments: argparse.Namespace) -> int:
    """The exit code of the verb: 1 for a damaged log, after everything whole in it."""
    return int(arguments.work(arguments))


def _show(arguments: argparse.Namespace) -> int:
    from pymlgo.training_log import read_log
    from pymlgo.training_log.text import log_text

    log = read_log(arguments.file)
    for line in log_text(log, context=arguments.context, limit=arguments.limit):
        print(line)
    return _exit_code(log)


def _stats(arguments: argparse.Namespace) -> int:
    from pymlgo.training_log import read_log
    from pymlgo.training_log.stats import log_stats
    from pymlgo.training_log.text import stats_text

    log = read_log(arguments.file)
    stats = log_stats(log)
    if arguments.json:
        from pymlgo.cli.json_output import print_json

        print_json("log-stats-1", stats)
    else:
        print(stats_text(stats))
    return _exit_code(log)


def _export(arguments: argparse.Namespace) -> int:
    from pymlgo.atomic_file import writing
    from pymlgo.errors import ConfigError
    from pymlgo.training_log import read_log
    from pymlgo.training_log.export import EXPORTS

    output: Path | None = arguments.output
    ending = output.suffix.removeprefix(".") if output else ""
    form = arguments.format or (ending if ending in FORMS else "jsonl")
    if output is None and form != "jsonl":
        raise ConfigError(f"{form} does not go to stdout", key="--output", hint=f"name a file: -o log.{form}")
    log = read_log(arguments.file)
    if output is None:
        EXPORTS[form](log, sys.stdout.buffer)
        sys.stdout.flush()
    else:
        with writing(output) as stream:
            EXPORTS[form](log, stream)
    return _exit_code(log)


def _exit_code(log: TrainingLog) -> int:
    from pymlgo.cli.main import report

    return 0 if log.error is None else report(log.error)
