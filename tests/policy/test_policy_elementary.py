"""The elementary functions are accurate, and special values come out as defined."""

from __future__ import annotations

import numpy as np
import pytest

from pymlgo.policy import elementary

RNG = np.random.default_rng(1)
INF, NAN = np.float32(np.inf), np.float32(np.nan)


def units_in_the_last_place(found: np.ndarray, exact: np.ndarray) -> float:
    spacing = np.spacing(np.abs(exact.astype(np.float32))).astype(np.float64)
    return float(np.max(np.abs(found.astype(np.float64) - exact) / spacing))


@pytest.mark.parametrize(
    ("function", "exact", "samples"),
    [
        (elementary.exp, np.exp, RNG.uniform(-87.3, 88.7, 200_000)),
        (elementary.exp, np.exp, RNG.normal(0, 1e-3, 50_000)),
        (elementary.log, np.log, np.exp(RNG.uniform(-87, 88, 200_000))),
        (elementary.log, np.log, 1 + RNG.normal(0, 1e-2, 50_000)),
        (elementary.log, np.log, 1e-45 * RNG.integers(1, 2**20, 1000)),
        (elementary.tanh, np.tanh, RNG.uniform(-10, 10, 200_000)),
        (elementary.tanh, np.tanh, RNG.normal(0, 1e-3, 50_000)),
    ],
)
def test_within_two_units_in_the_last_place(function, exact, samples) -> None:
    x = samples.astype(np.float32)
    with np.errstate(over="ignore"):  # of lanes that another branch decides
        found = function(x)
    assert units_in_the_last_place(found, exact(x.astype(np.float64))) < 2


@pytest.mark.parametrize(
    ("function", "x", "expected"),
    [
        (elementary.exp, [0, -0.0, INF, -INF, NAN, 89, -88], [1, 1, INF, 0, NAN, INF, 0]),
        (elementary.log, [1, 0, -0.0, INF, -1, NAN], [0, -INF, -INF, INF, NAN, NAN]),
        (elementary.tanh, [0, -0.0, INF, -INF, NAN, 9.5], [0, 0, 1, -1, NAN, 1]),
        (elementary.logistic, [0, INF, -INF, NAN], [0.5, 1, 0, NAN]),
        (elementary.elu, [0, -0.0, 2, INF, -INF, NAN], [0, -0.0, 2, INF, -1, NAN]),
    ],
)
def test_special_values(function, x, expected) -> None:
    with np.errstate(all="ignore"):
        found = function(np.float32(x))
    np.testing.assert_array_equal(found, np.float32(expected))
    np.testing.assert_array_equal(
        np.signbit(found[~np.isnan(found)]), np.signbit(np.float32(expected))[~np.isnan(found)]
    )


def test_monotone_where_it_matters() -> None:
    x = np.linspace(-8, 8, 100_001, dtype=np.float32)
    assert (np.diff(elementary.logistic(x)) > -1e-7).all()
    assert (np.diff(elementary.tanh(x)) > -2e-7).all()


def test_results_stay_float32() -> None:
    x = np.float32([0.5])
    assert {function(x).dtype for function in (elementary.exp, elementary.log, elementary.tanh)} == {
        np.dtype(np.float32)
    }
