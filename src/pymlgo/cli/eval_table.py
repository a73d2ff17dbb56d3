"""How `mlgo eval` shows an evaluation to people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from pymlgo.evaluate.evaluation import Evaluation
from pymlgo.evaluate.statistics import ExtremeModule


def print_table(result: Evaluation) -> None:
    """Print the evaluation on stdout: the totals, then each program."""
    console = Console(highlight=False, soft_wrap=True)
    low, high = result.interval95
    console.print(f"{result.policy} against LLVM's default, {result.compiler}")
    console.print(
        f".text     {result.default_text_bytes:>12,} -> {result.policy_text_bytes:>12,} bytes  "
        f"{result.text_change_percent:+.3f} %  (95 % interval {low:+.3f} … {high:+.3f} %)"
    )
    console.print(
        f"Berkeley  {result.default_berkeley_bytes:>12,} -> {result.policy_berkeley_bytes:>12,} bytes  "
        f"{result.berkeley_change_percent:+.3f} %"
    )
    console.print(
        f"{result.modules} modules: {result.better} better, {result.same} same, {result.worse} worse; "
        f"if each kept its smaller object {result.never_worse_change_percent:+.3f} %; "
        f"geometric mean {result.geomean_change_percent:+.3f} %"
    )
    for label, module in (("worst", result.worst_module), ("best", result.best_module)):
        if module is not None:
            console.print(f"{label} module: {_shown(module)}")
    decided = f"{result.decisions} decisions"
    if result.changed_decisions is not None:
        decided = f"{result.changed_decisions} of {decided} differ from the default"
    console.print(
        f"{decided}; {result.compiles} compiles, {result.cpu_s:.0f} CPU seconds"
        + (f", compile time x {result.compile_time_ratio:.2f}" if result.compile_time_ratio else "")
    )
    if result.failed:
        reasons = ", ".join(f"{reason} {count}" for reason, count in result.failures.items())
        console.print(f"{result.failed} modules failed: {reasons}")
        for name, why in sorted(result.failed_modules.items())[:5]:
            console.print(f"  {name}: {why}")
    console.print(_programs(result))


def _shown(module: ExtremeModule) -> str:
    return f"{module.name} {module.change_bytes:+} bytes ({module.change_percent:+.2f} %)"


def _programs(result: Evaluation) -> Table:
    table = Table("program", box=None)
    for heading in ("modules", ".text", "change", "Berkeley"):
        table.add_column(heading, justify="right")
    for each in result.programs:
        table.add_row(
            each.name,
            str(each.modules),
            f"{each.default_text_bytes:,}",
            f"{each.text_change_percent:+.2f} %",
            f"{each.berkeley_change_percent:+.2f} %",
        )
    return table
