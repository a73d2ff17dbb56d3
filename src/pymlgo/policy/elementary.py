"""exp, log, tanh and what is made of them, in float32, defined step by step.

A C library's own differ from machine to machine by a bit, and one bit can turn a decision. Here every step is one IEEE
operation on float32, rounded on its own (no fused multiply-add), in the order written; the emitter's C++ follows line
for line. Accuracy against the exact value: 2 units in the last place, except that EXP gives 0 where the exact value is
below the smallest normal number.

Source: the polynomials are those of Cephes' single-precision expf, logf and tanhf (Stephen L. Moshier).
"""

from __future__ import annotations

import numpy as np

from pymlgo.arrays import Float32Array, Int32Array

_ONE = np.float32(1)
_HALF = np.float32(0.5)

LOG2_E = np.float32(1.44269504088896341)
LN2_HIGH = np.float32(0.693359375)
LN2_LOW = np.float32(-2.12194440e-4)
"""ln 2 in two parts; the first has few enough bits that its product with an exponent is exact."""

EXP_OVERFLOW = np.float32(88.72283935546875)
EXP_UNDERFLOW = np.float32(-87.33654022216797)
"""Above the first EXP is +inf, below the second it is 0."""

EXP_POLYNOMIAL = tuple(
    np.float32(each)
    for each in (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
)
LOG_POLYNOMIAL = tuple(
    np.float32(each)
    for each in (
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    )
)
TANH_POLYNOMIAL = tuple(
    np.float32(each)
    for each in (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
)
SQRT_HALF = np.float32(0.707106781186547524)
TANH_SMALL = np.float32(0.625)
TANH_LARGE = np.float32(9.0)
SMALLEST_NORMAL = np.float32(1.17549435e-38)
TWO_TO_23 = np.float32(8388608.0)


def exp(x: Float32Array) -> Float32Array:
    """The exponential: NaN for NaN, +inf above `EXP_OVERFLOW`, 0 below `EXP_UNDERFLOW`."""
    inside = np.where((x >= EXP_UNDERFLOW) & (x <= EXP_OVERFLOW), x, np.float32(0))
    n = np.floor(inside * LOG2_E + _HALF)
    r = inside - n * LN2_HIGH
    r = r - n * LN2_LOW
    y = _horner(r, EXP_POLYNOMIAL)
    y = y * (r * r)
    y = y + r
    y = y + _ONE
    power = n.astype(np.int32)
    half = power >> 1  # two steps, for 2**128 is no float32
    y = y * _power_of_two(half)
    y = y * _power_of_two(power - half)
    y = np.where(x > EXP_OVERFLOW, np.float32(np.inf), y)
    y = np.where(x < EXP_UNDERFLOW, np.float32(0), y)
    return np.where(np.isnan(x), x, y)


def log(x: Float32Array) -> Float32Array:
    """The natural logarithm: NaN for NaN and below 0, -inf for ±0, +inf for +inf."""
    usable = (x > 0) & (x < np.float32(np.inf))
    inside = np.where(usable, x, _ONE)
    subnormal = inside < SMALLEST_NORMAL
    inside = np.where(subnormal, inside * TWO_TO_23, inside)
    bits = inside.view(np.int32)
    exponent = (bits >> 23) - 126
    m = ((bits & 0x007FFFFF) | 0x3F000000).view(np.float32)  # inside = m * 2**exponent, 0.5 <= m < 1
    exponent = np.where(subnormal, exponent - 23, exponent)
    small = m < SQRT_HALF
    exponent = np.where(small, exponent - 1, exponent)
    m = np.where(small, m + m, m)
    m = m - _ONE
    e = exponent.astype(np.float32)
    z = m * m
    y = _horner(m, LOG_POLYNOMIAL)
    y = y * m
    y = y * z
    y = y + e * LN2_LOW
    y = y - _HALF * z
    y = m + y
    y = y + e * LN2_HIGH
    y = np.where(x == 0, np.float32(-np.inf), y)
    y = np.where(x == np.float32(np.inf), x, y)
    return np.where(np.isnan(x) | (x < 0), np.float32(np.nan), y)


def tanh(x: Float32Array) -> Float32Array:
    """The hyperbolic tangent: ±1 beyond ±`TANH_LARGE`."""
    magnitude = np.abs(x)
    squared = x * x
    near = _horner(squared, TANH_POLYNOMIAL)
    near = near * squared
    near = near * x
    near = near + x
    far = _ONE - np.float32(2) / (exp(magnitude + magnitude) + _ONE)
    far = np.where(magnitude > TANH_LARGE, _ONE, far)
    far = np.where(x < 0, -far, far)
    return np.where(magnitude >= TANH_SMALL, far, near)  # NaN takes `near` and stays NaN


def logistic(x: Float32Array) -> Float32Array:
    """1 / (1 + EXP(-x))."""
    return _ONE / (_ONE + exp(-x))


def elu(x: Float32Array) -> Float32Array:
    """X where x >= 0 (and for NaN), else EXP(x) - 1."""
    return np.where(x < 0, exp(x) - _ONE, x)


def _horner(x: Float32Array, coefficients: tuple[np.float32, ...]) -> Float32Array:
    # ((c0 * x + c1) * x + …) + cn, each product and each sum rounded on its own
    y = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        y = y * x + coefficient
    return y


def _power_of_two(exponent: Int32Array) -> Float32Array:
    return ((exponent + np.int32(127)) << np.int32(23)).astype(np.int32).view(np.float32)
