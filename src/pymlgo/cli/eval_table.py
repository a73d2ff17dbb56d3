"""How `mlgo eval` shows an evaluation to people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from pymlgo.evaluate.evaluation import Evaluation, GroupChange, LinkedEvaluation
from pymlgo.evaluate.statistics import ExtremeModule

MOST_SHOWN = 5
"""Failed modules and programs that are named; `--json` has them all."""


def print_table(result: Evaluation) -> None:
    """Print the evaluation on stdout: the totals, then modules, languages and programs."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{result.policy} against LLVM's default, {result.compiler}")
    console.print(_totals(result))
    console.print(
        f".text 95 % interval {_interval(result.interval95)} over modules, "
        f"{_interval(result.program_interval95)} over programs; geometric mean {result.geomean_change_percent:+.3f} %"
    )
    console.print(
        f"{result.modules} modules: {result.better} better, {result.same} same, {result.worse} worse; "
        f"if each kept its smaller object {result.never_worse_change_percent:+.3f} %"
    )
    for label, modules in (("worst", result.worst_modules), ("best", result.best_modules)):
        for number, module in enumerate(modules):
            console.print(f"{label if number == 0 else '':<5}  {_shown(module)}")
    console.print(_cost(result))
    _print_failures(console, f"{result.failed} modules failed", result.failed_modules)
    console.print(_groups(result))
    if result.linked is not None:
        _print_failures(console, "not linked", result.linked.failed_programs)


def _totals(result: Evaluation) -> Table:
    table = Table("", box=None, pad_edge=False)
    for heading in ("default", "policy", "change"):
        table.add_column(heading, justify="right")
    measured: list[tuple[str, Evaluation | LinkedEvaluation]] = [("", result)]
    if result.linked is not None and result.linked.programs:
        measured.append((", linked", result.linked))
    for label, each in measured:
        table.add_row(
            *_total(f".text{label}", each.default_text_bytes, each.policy_text_bytes, each.text_change_percent)
        )
        table.add_row(
            *_total(
                f"Berkeley{label}",
                each.default_berkeley_bytes,
                each.policy_berkeley_bytes,
                each.berkeley_change_percent,
            )
        )
    return table


def _total(label: str, before: int, after: int, change: float) -> tuple[str, str, str, str]:
    return label, f"{before:,}", f"{after:,}", f"{change:+.3f} %"


def _interval(bounds: tuple[float, float]) -> str:
    return f"{bounds[0]:+.3f} … {bounds[1]:+.3f} %"


def _shown(module: ExtremeModule) -> str:
    return f"{module.name} {module.change_bytes:+} bytes ({module.change_percent:+.2f} %)"


def _cost(result: Evaluation) -> str:
    decided = f"{result.decisions} decisions"
    if result.changed_decisions is not None:
        decided = f"{result.changed_decisions} of {decided} differ from the default"
    ratio = f", compile time x {result.compile_time_ratio:.2f}" if result.compile_time_ratio else ""
    return f"{decided}; {result.compiles} compiles, {result.cpu_s:.0f} CPU seconds{ratio}"


def _print_failures(console: Console, label: str, failures: Mapping[str, str]) -> None:
    if not failures:
        return
    console.print(f"{label}:")
    for name in sorted(failures)[:MOST_SHOWN]:
        console.print(f"  {name}: {failures[name]}", markup=False)


def _groups(result: Evaluation) -> Table:
    table = Table("", box=None, pad_edge=False)
    linked = {each.name: each for each in result.linked.programs} if result.linked else {}
    for heading in ("modules", ".text", "change", "Berkeley", *(("linked .text", "Berkeley") if linked else ())):
        table.add_column(heading, justify="right")
    for title, groups in (("language", result.languages), ("program", result.programs)):
        for each in groups:
            after_linking = linked.get(each.name) if title == "program" else None
            table.add_row(*_group(each), *(_linked(after_linking) if linked else ()))
        table.add_section()
    return table


def _group(group: GroupChange) -> Sequence[str]:
    return (
        group.name,
        str(group.modules),
        f"{group.default_text_bytes:,}",
        f"{group.text_change_percent:+.2f} %",
        f"{group.berkeley_change_percent:+.2f} %",
    )


def _linked(group: GroupChange | None) -> Sequence[str]:
    if group is None:
        return "", ""
    return f"{group.text_change_percent:+.2f} %", f"{group.berkeley_change_percent:+.2f} %"
