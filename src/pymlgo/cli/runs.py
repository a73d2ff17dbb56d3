"""`mlgo runs`: training runs, as their folders tell them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pymlgo.cli.json_output import print_json

if TYPE_CHECKING:
    from pymlgo.train.run_summary import RunSummary


def configure(parser: argparse.ArgumentParser) -> None:
    """The verb's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, summary in (
        ("list", "all runs, the newest last"),
        ("show", "settings, candidates and cost of one run"),
        ("compare", "several runs: what differs between them, and what came out"),
    ):
        action = actions.add_parser(name, help=summary, description=summary)
        action.add_argument("--runs", type=Path, default=Path("runs"), help="where runs are kept (default: runs)")
        action.add_argument("--json", action="store_true", help="print the result as JSON")
        if name == "show":
            action.add_argument("run", help="the run's name, or its folder")
        if name == "compare":
            action.add_argument("run", nargs="+", help="names or folders")


def run(arguments: argparse.Namespace) -> int:
    """0; runs that do not exist are an error."""
    from pymlgo.train.run_summary import differences, find_run, list_runs, summarize

    match arguments.action:
        case "list":
            summaries = list_runs(arguments.runs)
        case "show":
            summaries = (summarize(find_run(arguments.run, arguments.runs)),)
        case _:
            summaries = tuple(summarize(find_run(each, arguments.runs)) for each in arguments.run)
    if arguments.json:
        if arguments.action == "show":
            print_json("run-1", summaries[0])
        else:
            print_json("runs-1", {"runs": summaries})
        return 0
    for summary in summaries:
        print(_line(summary))
    if arguments.action == "show":
        for key, value in summaries[0].settings.items():
            print(f"  {key}: {value}")
        for each in summaries[0].candidates:
            print(
                f"  round {each.round + 1}, {each.compiles} compiles: "
                f".text {each.text_change_percent:+.3f} %, Berkeley {each.berkeley_change_percent:+.3f} %"
            )
    if arguments.action == "compare":
        for key, values in differences(summaries).items():
            print(f"  {key}: {' | '.join(map(str, values))}")
    return 0


def _line(summary: RunSummary) -> str:
    best = (
        "LLVM's default" if summary.best_text_change_percent is None else f"{summary.best_text_change_percent:+.3f} %"
    )
    return (
        f"{summary.name}  {summary.state:<11}  .text {best}  {summary.labels} labels  "
        f"{summary.compiles} compiles  {summary.cpu_s:.0f} CPU s"
    )
