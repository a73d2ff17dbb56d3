"""The three decisions that a stock LLVM can ask about. Features are not listed: the compiler's header names them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from pymlgo.arrays import AnyArray
from pymlgo.channel.observation import Correct
from pymlgo.errors import ConfigError
from pymlgo.tensor_spec import TensorSpec
from pymlgo.toolchain.flags import eviction_channel_flags, inliner_channel_flags, priority_channel_flags
from pymlgo.toolchain.llvm import LLVM
from pymlgo.training_log.header import Header

OLDEST_WITH_DEFAULT_IN_PLACE = 21
"""Older inliners write their own decision over another feature, and 0 into the one that is named after it.

Source: measured on clang 19.1.7; mended by "Fix: Index correctly into features to get default inlining decision"
(llvm/llvm-project#141453, May 2025).
"""

_DEFAULT = "inlining_default"
_OVERWRITTEN = "callee_basic_block_count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One kind of decision.

    Attributes:
        name: "inlining", "eviction" or "priority".
        advice: the tensor that answers.
        one_context_per: what the decisions of one context belong to. A module's context has the empty name, a
            function's has the function's.
        default_feature: the feature that holds what LLVM's own heuristic would do; None where LLVM does not say.
        channel_flags: the clang flags that make it ask on the channel of a base path, default included where LLVM can.
            Pass `correction` to the channel with them.
        serving_flags: the same for a policy, with every feature as the document says; the default is included only
            where that costs no other feature.
        correction: what has to be corrected in this LLVM's header under `channel_flags`; None where it is right.
        check_advice: (features, advice) → None where the compiler may get it, else what is wrong with it.
    """

    name: str
    advice: TensorSpec
    one_context_per: Literal["module", "function"]
    default_feature: str | None
    channel_flags: Callable[[LLVM, Path], tuple[str, ...]]
    serving_flags: Callable[[LLVM, Path], tuple[str, ...]]
    correction: Callable[[LLVM], Correct | None]
    check_advice: Callable[[Mapping[str, AnyArray], AnyArray], str | None]


def problem_named(name: str) -> Problem:
    """The problem of this name.

    Raises:
        ConfigError: there is none.
    """
    try:
        return PROBLEMS[name]
    except KeyError:
        raise ConfigError(f"unknown problem {name!r}", hint=f"known are {', '.join(PROBLEMS)}") from None


def _inlining_wrong(_features: Mapping[str, AnyArray], advice: AnyArray) -> str | None:
    # LLVM takes anything but 0 for yes; a model that says 7 means something else.
    value = advice.item()
    return None if value in (0, 1) else f"an inlining decision is 0 or 1, found {value}"


def _eviction_wrong(features: Mapping[str, AnyArray], advice: AnyArray) -> str | None:
    # LLVM indexes its candidates with the advice unchecked: outside the mask it reads what is not there and crashes.
    mask = features.get("mask")
    if mask is None:
        return "without the feature 'mask' nobody knows which live ranges may be evicted"
    index = advice.item()
    if not 0 <= index < mask.size:
        return f"there are {mask.size} live ranges to evict, found index {index}"
    if not mask.item(index):
        return f"live range {index} must not be evicted, the mask allows {mask.reshape(-1).nonzero()[0].tolist()}"
    return None


def _priority_wrong(_features: Mapping[str, AnyArray], advice: AnyArray) -> str | None:
    # LLVM truncates the priority to an unsigned of 32 bits; outside its range C++ does not say what happens.
    value = advice.item()
    return None if math.isfinite(value) and 0 <= value < 2**32 else f"a priority is in [0, 2^32), found {value}"


def _inliner_serving_flags(llvm: LLVM, base: Path) -> tuple[str, ...]:
    return inliner_channel_flags(llvm, base, include_default=llvm.major >= OLDEST_WITH_DEFAULT_IN_PLACE)


def _inliner_correction(llvm: LLVM) -> Correct | None:
    return None if llvm.major >= OLDEST_WITH_DEFAULT_IN_PLACE else _default_where_it_is


def _default_where_it_is(header: Header) -> Header:
    names = [spec.name for spec in header.features]
    if names[-1:] != [_DEFAULT] or _OVERWRITTEN not in names:
        return header
    features = list(header.features[:-1])
    features[names.index(_OVERWRITTEN)] = header.features[-1]
    return dataclasses.replace(header, features=tuple(features))


def _right_as_it_is(_llvm: LLVM) -> None:
    return None


INLINING = Problem(
    name="inlining",
    advice=TensorSpec("inlining_decision", "int64_t", (1,)),
    one_context_per="module",
    default_feature=_DEFAULT,
    channel_flags=functools.partial(inliner_channel_flags, include_default=True),
    serving_flags=_inliner_serving_flags,
    correction=_inliner_correction,
    check_advice=_inlining_wrong,
)
"""Inline this call? Source: MLInlineAdvisor (LLVM 22)."""

EVICTION = Problem(
    name="eviction",
    advice=TensorSpec("index_to_evict", "int64_t", (1,)),
    one_context_per="function",
    default_feature=None,
    channel_flags=eviction_channel_flags,
    serving_flags=eviction_channel_flags,
    correction=_right_as_it_is,
    check_advice=_eviction_wrong,
)
"""Which live range makes room? The last column is the candidate itself: none. Source: MLEvictAdvisor (LLVM 22)."""

PRIORITY = Problem(
    name="priority",
    advice=TensorSpec("priority", "float", (1,)),
    one_context_per="function",
    default_feature=None,
    channel_flags=priority_channel_flags,
    serving_flags=priority_channel_flags,
    correction=_right_as_it_is,
    check_advice=_priority_wrong,
)
"""Which live range is allocated first? Source: MLPriorityAdvisor (LLVM 22)."""

PROBLEMS: Mapping[str, Problem] = MappingProxyType({each.name: each for each in (INLINING, EVICTION, PRIORITY)})
"""By name."""
