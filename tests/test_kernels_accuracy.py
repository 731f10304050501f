"""No drift: an answer's error depends on its own window, wherever it is in the column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from support import kernels_oracle as oracle
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


@pytest.mark.slow
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
def test_panes_keep_what_rounding_loses(algorithm: str) -> None:
    values = [2.0**53, 1.0] + [0.0] * 62 + [-(2.0**53)] + [0.0] * 63
    array, times = pa.array(values), pa.array(range(128))
    for agg, expected in (("sum", 1.0), ("mean", 1 / 128)):
        by_time = kernels.sliding_by(array, times, 128, 64, agg=agg, algorithm=algorithm)
        assert by_time["value"][1].as_py() == expected
    reaching = kernels.sliding_sum(array, 192, 64, partial="start", algorithm=algorithm)
    assert reaching[1].as_py() == 1.0


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


def true(values: Sequence[float | None], agg: str) -> float:
    """Return the answer for finite values, in fractions, rounded once."""
    inside = [Fraction(value) for value in values if value is not None]
    total = sum(inside, Fraction(0))
    answer = total if agg == "sum" else total / len(inside)
    if agg in ("var", "std"):
        answer = sum((value - answer) ** 2 for value in inside) / Fraction(len(inside) - 1)
    try:
        return float(answer) if agg != "std" else root(answer)
    except OverflowError:
        return math.inf if answer > 0 else -math.inf


def root(square: Fraction) -> float:
    """Return the root, whether or not the square is in the range of a float."""
    scale = 2**512
    return math.sqrt(square / scale**2) * scale


HUGE = {
    "cancelling": [1e308, 1e308, -1e308, -1e308] * 60,
    "rising": [1.7e308 * (-1) ** (at // 3) + at * 1e300 for at in range(240)],
    "mixed": [(1e308, -1e308, 1.0, 1.5e308, -1.5e308, 2e300)[at % 6] for at in range(240)],
    "squares": [1e200 * (at % 7) for at in range(240)],
    "strangers": [
        math.inf if at % 90 == 40 else math.nan if at == 170 else 1.2e308 * (-1) ** (at // 2)
        for at in range(240)
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HUGE)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("agg", ["sum", "mean", "var", "std"])
@pytest.mark.parametrize("nulls", [False, True])
def test_finite_values_near_the_end_of_the_range(name: str, algorithm: str, agg: str, nulls: bool) -> None:
    values: list[float | None] = list(HUGE[name])
    if nulls:
        values[::5] = [None] * len(values[::5])
        values[100:112] = [None] * 12
    column, times = pa.array(values), pa.array(range(len(values)))
    for size, slide, partial in [
        (3, 1, "none"),
        (4, 1, "start"),
        (9, 2, "both"),
        (64, 1, "end"),
        (80, 16, "both"),
        (40, 40, "none"),
    ]:
        got = kernels.sliding(column, size, slide, agg=agg, algorithm=algorithm, partial=partial).to_pylist()
        ranges = list(oracle.rolling(len(values), size, slide, partial))
        if slide == 1 and partial == "start":
            got += kernels.sliding_by(column, times, size - 1, agg=agg, algorithm=algorithm).to_pylist()
            ranges += ranges
        for (start, end), mine in zip(ranges, got, strict=True):
            inside = [value for value in values[start:end] if value is not None]
            if len(inside) < (2 if agg in ("var", "std") else 1):
                assert mine is None
            elif all(map(math.isfinite, inside)):
                wanted = true(inside, agg)
                if agg in ("var", "std"):
                    assert mine == wanted or math.isclose(mine, wanted, rel_tol=1e-11), (size, start)
                else:
                    largest = max(map(abs, inside))
                    slack = len(inside) ** 3 * UNIT**2 * largest + 2 * UNIT * abs(wanted)
                    assert mine == wanted or abs(mine - wanted) <= slack, (size, start, mine, wanted)
            else:
                assert not math.isfinite(mine)
