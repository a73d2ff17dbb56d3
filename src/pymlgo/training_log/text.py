"""A log and its figures as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from pymlgo.arrays import AnyArray
from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log.contexts import LogContext, TrainingLog
from pymlgo.training_log.header import Header, valid_name
from pymlgo.training_log.stats import LogStats, TensorStats

_SHOWN_ELEMENTS = 6


def log_text(log: TrainingLog, *, context: str | None = None, limit: int = 10) -> Iterator[str]:
    """The header, then each context with its first observations, in all `limit` of them.

    Of an observation the tensors that are all 0 are left out.
    """
    yield from _header_text(log.header)
    for each in log.contexts:
        if context in (None, each.name):
            yield f"context {each.name!r}: {len(each)} observations from {each.first_observation} on"
            shown = min(max(limit, 0), len(each))
            yield from _observations_text(each, shown)
            limit -= shown
            if shown < len(each):
                yield f"  … {len(each) - shown} more"


def _header_text(header: Header) -> Iterator[str]:
    yield f"{len(header.features)} features: {', '.join(map(_spec_text, header.features))}"
    for name, spec in (("score", header.score), ("advice", header.advice)):
        if spec is not None:
            yield f"{name}: {_spec_text(spec)}"
    for key, value in header.extra.items():
        yield f"{valid_name(key)}: {value!r}"


def _spec_text(spec: TensorSpec) -> str:
    return f"{spec.name} {spec.type}[{','.join(map(str, spec.shape))}]"


def _observations_text(context: LogContext, count: int) -> Iterator[str]:
    rows = [(segment, row) for segment in context.segments for row in range(min(count, len(segment)))][:count]
    for segment, row in rows:
        values = {spec.name: segment.features[spec.name][row] for spec in context.header.features}
        told = [f"{name}={_values_text(value)}" for name, value in values.items() if value.any()]
        outcome = "" if segment.outcomes is None else f" -> {_values_text(segment.outcomes[row])}"
        yield f"  {segment.first_observation + row}: {' '.join(told)}{outcome}"


def _values_text(values: AnyArray) -> str:
    flat = values.reshape(-1)
    texts = [f"{value:g}" if values.dtype.kind == "f" else str(value) for value in flat[:_SHOWN_ELEMENTS].tolist()]
    if len(flat) == 1:
        return texts[0]
    return f"[{' '.join(texts)}{' …' if len(flat) > _SHOWN_ELEMENTS else ''}]"


def stats_text(stats: LogStats) -> str:
    """The figures of a log as a table."""
    again = stats.contexts - stats.distinct_contexts
    lines = [
        f"{stats.file}: {stats.size_bytes} bytes",
        f"{stats.observations} observations in {stats.contexts} contexts"
        f" ({stats.empty_contexts} empty, {again} come back, the longest has {stats.longest_context})",
    ]
    tensors = [*stats.features, *([stats.score] if stats.score else [])]
    width = max((len(each.name) for each in tensors), default=0)
    lines.append(f"{'':<{width}}  {'minimum':>12}  {'maximum':>12}  {'mean':>12}  {'zero':>6}")
    for each in tensors:
        marks = [
            mark for mark, holds in (("action", each.name == stats.action), ("score", each is stats.score)) if holds
        ]
        lines.append(f"{each.name:<{width}}  {_figures(each)}  {' '.join(marks)}".rstrip())
    return "\n".join(lines)


def _figures(stats: TensorStats) -> str:
    if stats.mean is None or stats.zero_fraction is None:
        return f"{'-':>12}  {'-':>12}  {'-':>12}  {'-':>6}"
    numbers = "  ".join(f"{value:>12.6g}" for value in (stats.minimum or 0, stats.maximum or 0, stats.mean))
    return f"{numbers}  {100 * stats.zero_fraction:>5.1f}%" + (
        f"  {stats.non_finite} not finite" * bool(stats.non_finite)
    )
