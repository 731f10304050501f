"""No drift: an answer's error depends on its own window, wherever it is in the column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from windowkit import kernels

UNIT = 2.0**-53
ALGORITHMS = ["auto", "recalculate", "two_stacks", "two_stacks_simd"]
ROWS = 3_000


def columns() -> dict[str, list[float]]:
    chosen = np.random.default_rng(5)
    wide = chosen.standard_normal(ROWS) * 10.0 ** chosen.integers(-12, 12, ROWS)
    spikes = np.where(chosen.random(ROWS) < 0.01, 1e20, chosen.random(ROWS))
    return {
        "offset": (1e9 + chosen.standard_normal(ROWS)).tolist(),
        "alternating": [(-1.0) ** at * (1e8 + at / 7) for at in range(ROWS)],
        "wide": wide.tolist(),
        "spikes": spikes.tolist(),
        "tenths": [0.1] * ROWS,
        "subnormal": (chosen.standard_normal(ROWS) * 1e-310).tolist(),
    }


COLUMNS = columns()


def bound(window: Sequence[float]) -> float:
    """Return the error that Kahan's sum may have: 2u + O(n·u²) times the sum of absolute values."""
    return (2 * UNIT + len(window) * UNIT**2) * math.fsum(map(abs, window)) + 5e-324


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("size", "slide"), [(3, 1), (64, 1), (1000, 1), (1000, 7), (640, 64), (50, 60)])
def test_sums_are_no_worse_than_kahans(name: str, algorithm: str, size: int, slide: int) -> None:
    values = COLUMNS[name]
    column = pa.array(values)
    sums = kernels.sliding_sum(column, size, slide, algorithm=algorithm).to_pylist()
    means = kernels.sliding_mean(column, size, slide, algorithm=algorithm).to_pylist()
    for k, (total, mean) in enumerate(zip(sums, means, strict=True)):
        window = values[k * slide : k * slide + size]
        exact = math.fsum(window)
        assert abs(total - exact) <= bound(window), (k, total, exact)
        # The division rounds once more.
        assert abs(mean - exact / size) <= bound(window) / size + UNIT * abs(exact / size) * 2


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sums_over_times_are_no_worse_than_kahans(name: str, algorithm: str) -> None:
    values = COLUMNS[name]
    times = pa.array([at * at // 500 for at in range(ROWS)])
    sums = kernels.sliding_by(pa.array(values), times, 700, agg="sum", algorithm=algorithm).to_pylist()
    panes = kernels.sliding_by(pa.array(values), times, 700, 350, agg="sum", algorithm=algorithm)
    spans = [(time - 700, time + 1, total) for time, total in zip(times.to_pylist(), sums, strict=True)]
    spans += [(row["start"], row["end"], row["value"]) for row in panes.to_pylist()]
    stamps = np.array(times)
    for start, end, total in spans:
        window = values[np.searchsorted(stamps, start) : np.searchsorted(stamps, end)]
        assert abs(total - math.fsum(window)) <= bound(window)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("nulls", [False, True])
def test_variances_of_close_values_far_from_zero(algorithm: str, nulls: bool) -> None:
    values: list[float | None] = list(COLUMNS["offset"][:1500])
    if nulls:
        values[::7] = [None] * len(values[::7])
    for size, slide in [(5, 1), (300, 1), (300, 40), (64, 64)]:
        got = kernels.sliding_var(pa.array(values), size, slide, algorithm=algorithm).to_pylist()
        for k, variance in enumerate(got[:: max(len(got) // 50, 1)]):
            start = k * max(len(got) // 50, 1) * slide
            window = [Fraction(value) for value in values[start : start + size] if value is not None]
            mean = sum(window) / len(window)
            exact = float(sum((value - mean) ** 2 for value in window) / (len(window) - 1))
            # One mean in float64 would keep seven digits here.
            assert math.isclose(variance, exact, rel_tol=1e-9), (size, slide, k)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("agg", ["sum", "mean", "var", "std"])
def test_infinities_and_nan_stay_in_their_windows(algorithm: str, agg: str) -> None:
    values = [float(at % 5) for at in range(400)]
    special = {50: math.inf, 130: -math.inf, 210: math.nan, 300: math.inf, 303: -math.inf}
    for at, value in special.items():
        values[at] = value
    for size in (2, 10, 64):
        for k, got in enumerate(
            kernels.sliding(pa.array(values), size, agg=agg, algorithm=algorithm).to_pylist()
        ):
            inside = {value for at, value in special.items() if k <= at < k + size}
            if not inside:
                assert math.isfinite(got)
            elif agg in ("var", "std") or len(inside) > 1 or any(map(math.isnan, inside)):
                assert math.isnan(got)
            else:
                assert got in inside


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_wide_integers_have_means_of_their_own(algorithm: str) -> None:
    values = [2**63 - 1 - at for at in range(100)] + [-(2**63) + at for at in range(100)]
    for k, mean in enumerate(kernels.sliding_mean(pa.array(values), 10, algorithm=algorithm).to_pylist()):
        exact = Fraction(sum(values[k : k + 10]), 10)
        assert abs(Fraction(mean) - exact) <= 2 * UNIT * max(map(abs, values[k : k + 10]))
