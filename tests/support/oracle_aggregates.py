"""What an aggregate of some rows is, by its definition and in exact arithmetic, and what counts as near."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
from datasketches import hll_sketch

import windowkit as wk
from support.oracle_types import mean_type, sum_type, value_type
from support.plain import nan_last

INT64 = range(-(2**63), 2**63)
UINT64 = range(2**64)
EXACT = Context(prec=200)
ROUNDOFF = 2.0**-53


@dataclass(frozen=True)
class Close:
    """A float64 result, equal to what lies within `tolerance` of `value`."""

    value: float
    tolerance: float

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, float):
            return False
        if not math.isfinite(self.value):
            return other == self.value or (math.isnan(self.value) and math.isnan(other))
        return abs(other - self.value) <= self.tolerance


@dataclass(frozen=True)
class RootClose:
    """A float64 result whose square is `square`."""

    square: Close

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and (other >= 0 or math.isnan(other)) and self.square == other * other


def aggregate(
    each: wk.Aggregate,
    rows: Sequence[int],
    times: Sequence[int],
    columns: dict[str, list[Any]],
    schema: pa.Schema,
) -> Any:
    """Return the value of one aggregate of `rows`."""
    if each.function == "collect_rows":
        names = each.columns or schema.names
        return [{name: columns[name][row] for name in names} for row in in_time(rows, times)]
    if each.column is None:
        return len(rows)
    column, kind = columns[each.column], value_type(schema.field(each.column).type)
    values = [column[row] for row in rows if column[row] is not None]
    match each.function:
        case "count":
            return len(values)
        case "first" | "last" if rows:
            return column[end_of_time(each.function, rows, times)]
        case "arg_min" | "arg_max":
            return arg_extremum(each.function, column, columns[each.columns[1]], rows, times)
        case "collect_list":
            return [column[row] for row in in_time(rows, times) if column[row] is not None]
        case "collect_set":
            return distinct(values)
        case "top_k":
            return by_frequency(values)[: int(each.parameters[0])]
        case "frequent":
            share = each.parameters[0]
            return [entry for entry in by_frequency(values) if entry["count"] / len(values) >= share]
        case "count_distinct":
            return len(distinct(values))
        case "approx_count_distinct":
            return countable(values)
        case "hll_sketch":
            return Sketch(countable(values))
    if not values:
        return None
    valid = [row for row in rows if column[row] is not None]
    match each.function:
        case "min_count":
            return values_like(values, min(values, key=nan_last))
        case "max_count":
            return values_like(values, max(values, key=nan_last))
        case "mode":
            return max(distinct(values), key=lambda value: values_like(values, value))
        case "median":
            return quantile(values, 0.5, kind)
        case "quantile":
            return quantile(values, each.parameters[0], kind)
        case "quantile_disc":
            share, ascending = Fraction(each.parameters[0]), sorted(values, key=nan_last)
            return next(value for at, value in enumerate(ascending) if share_of(at + 1, len(values)) >= share)
        case "approx_quantile":
            return near_quantile(values, each.parameters[0])
        case "geometric_mean":
            return geometric_mean(values)
        case "m4" | "m4_times":
            return m4(each.function, column, valid, times)
        case "first_valid" | "last_valid":
            return column[end_of_time(each.function, valid, times)]
        case "min":
            return min(values, key=nan_last)
        case "max":
            return max(values, key=nan_last)
        case "sum":
            return total(values, kind)
        case "mean":
            return mean(values, kind)
        case "var_pop":
            return variance(values, len(values))
        case "var_samp":
            return variance(values, len(values) - 1)
        case "stddev_pop":
            return root(variance(values, len(values)))
        case "stddev_samp":
            return root(variance(values, len(values) - 1))
    raise NotImplementedError(each.function)


def in_time(rows: Sequence[int], times: Sequence[int]) -> list[int]:
    """Return rows in order of time and then in row order."""
    return sorted(rows, key=lambda row: (times[row], row))


def end_of_time(function: str, rows: Sequence[int], times: Sequence[int]) -> int:
    """Return the row that is first, or last, in time and then in row order."""
    return (min if function.startswith("first") else max)(rows, key=lambda row: (times[row], row))


def arg_extremum(
    function: str, column: Sequence[Any], by: Sequence[Any], rows: Sequence[int], times: Sequence[int]
) -> Any:
    """Return the value of `column` where `by` is extreme, in the first of such rows in time and row order."""
    valid = [row for row in rows if by[row] is not None]
    if not valid:
        return None
    best = (min if function == "arg_min" else max)((by[row] for row in valid), key=nan_last)
    tied = [row for row in valid if nan_last(by[row]) == nan_last(best)]
    return column[end_of_time("first", tied, times)]


def distinct(values: Sequence[Any]) -> list[Any]:
    """Return the values that are not equal to others, ascending."""
    ascending = sorted(values, key=nan_last)
    return [
        value
        for at, value in enumerate(ascending)
        if at == 0 or nan_last(value) != nan_last(ascending[at - 1])
    ]


def by_frequency(values: Sequence[Any]) -> list[dict[str, Any]]:
    """Return distinct values with their counts, the most frequent first, of several the least."""
    counted = [{"value": value, "count": values_like(values, value)} for value in distinct(values)]
    return sorted(counted, key=lambda entry: -entry["count"])


def countable(values: Sequence[Any]) -> int:
    """Return how many distinct values there are, so few that sketches are exact; empty texts are none."""
    return len([value for value in distinct(values) if value not in ("", b"")])


@dataclass(frozen=True)
class Sketch:
    """Bytes that Apache's library takes for a sketch of `count` values."""

    count: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, bytes) and round(hll_sketch.deserialize(other).get_estimate()) == self.count


def values_like(values: Sequence[Any], wanted: Any) -> int:
    return sum(nan_last(value) == nan_last(wanted) for value in values)


def share_of(count: int, rows: int) -> Fraction:
    """Return count / rows as SQL's cume_dist has it, in float64."""
    return Fraction(count / rows)


def quantile(values: Sequence[Any], share: float, kind: pa.DataType) -> Any:
    """Return the interpolated value at `share` of the way, in float64, from the first to the last."""
    ascending = sorted(values, key=nan_last)
    position = (len(values) - 1) * share
    lower, upper = ascending[math.floor(position)], ascending[math.ceil(position)]
    beyond = Fraction(position) - math.floor(position)
    if pa.types.is_temporal(kind):
        exact = lower + (upper - lower) * beyond
        return Near(exact, 1 + 4 * ROUNDOFF * max(abs(lower), abs(upper)))
    if not (math.isfinite(lower) and math.isfinite(upper)):
        lower, upper = float(lower), float(upper)
        between = lower + (upper - lower) * float(beyond)
        return Close(lower if beyond == 0 or lower == upper else between, 0.0)
    exact = Fraction(lower) + (Fraction(upper) - Fraction(lower)) * beyond
    return Close(float(exact), 8 * ROUNDOFF * max(abs(float(lower)), abs(float(upper))))


@dataclass(frozen=True)
class Near:
    """An integer result, within `tolerance` of `value`."""

    value: Fraction
    tolerance: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and abs(other - self.value) <= self.tolerance


@dataclass(frozen=True)
class Among:
    """A result that is one of the values of a column."""

    values: list[Any]

    def __eq__(self, other: object) -> bool:
        return any(same(value, other) for value in self.values)


def near_quantile(values: Sequence[Any], share: float) -> Among:
    """Return the values whose rank is within 5 % of the requested one: a sketch errs by less."""
    ascending = sorted(values, key=nan_last)
    slack = 0.05 * len(values) + 1
    low = max(0, math.floor(share * len(values) - slack))
    return Among(ascending[low : math.ceil(share * len(values) + slack) + 1])


def geometric_mean(values: Sequence[Any]) -> Close:
    """Return the n-th root of the product."""
    if any(value < 0 or math.isnan(value) for value in values):
        return Close(math.nan, 0.0)
    if any(value == 0 for value in values):
        return Close(math.nan if math.inf in values else 0.0, 0.0)
    if math.inf in values:
        return Close(math.inf, 0.0)
    logs = [math.log(value) for value in values]
    mean = math.fsum(logs) / len(values)
    size = math.fsum(map(abs, logs)) / len(values)
    return Close(math.exp(mean), math.exp(mean) * (4 * len(values) * size + 8) * ROUNDOFF)


def m4(function: str, column: Sequence[Any], valid: Sequence[int], times: Sequence[int]) -> dict[str, Any]:
    """Return the least, greatest, first and last value, and on request the first time of each."""
    least = arg_extremum("arg_min", range(len(column)), column, valid, times)
    greatest = arg_extremum("arg_max", range(len(column)), column, valid, times)
    ends = [end_of_time("first", valid, times), end_of_time("last", valid, times)]
    result: dict[str, Any] = {}
    for name, row in zip(["min", "max", "first", "last"], [least, greatest, *ends], strict=True):
        result[name] = column[row]
        if function == "m4_times":
            result[f"{name}_time"] = times[row]
    return result


def total(values: Sequence[Any], kind: pa.DataType) -> Any:
    if pa.types.is_floating(kind):
        return float_total(values, len(values))
    exact = exact_sum(values)
    require_fits(exact, sum_type(kind))
    return exact


def mean(values: Sequence[Any], kind: pa.DataType) -> Any:
    if pa.types.is_duration(kind):
        return half_up(Fraction(exact_sum(values), len(values)))
    if pa.types.is_decimal(kind):
        out = mean_type(kind)
        unscaled = half_up(Fraction(exact_sum(values)) / len(values) * 10**out.scale)
        result = EXACT.scaleb(Decimal(unscaled), -out.scale)
        require_fits(result, out)
        return result
    count = len(values)
    if pa.types.is_integer(kind):
        exact = Fraction(exact_sum(values), count)
        return Close(float(exact), 4 * ROUNDOFF * abs(float(exact)))
    whole = float_total(values, count)
    return Close(whole.value / count, whole.tolerance / count + 2 * ROUNDOFF * abs(whole.value / count))


def half_up(value: Fraction) -> int:
    """Round to an integer, halves away from zero."""
    rounded = (2 * abs(value.numerator) + value.denominator) // (2 * value.denominator)
    return rounded if value >= 0 else -rounded


def float_total(values: Sequence[float], count: int) -> Close:
    if not all(map(math.isfinite, values)):
        # IEEE arithmetic is exact about what is not finite: inf, -inf or NaN, in any order.
        return Close(sum(value for value in values if not math.isfinite(value)), 0.0)
    exact = sum(map(Fraction, values))
    return Close(float(exact), 2 * count * ROUNDOFF * math.fsum(map(abs, values)))


def variance(values: Sequence[Any], divisor: int) -> Close | None:
    """Mean squared deviation, as close as the pairwise method's error bound promises (Chan et al. 1983)."""
    if divisor == 0:
        return None
    if not all(math.isfinite(value) for value in values):
        return Close(math.nan, 0.0)
    exact = [Fraction(value) for value in values]
    count = len(exact)
    center = sum(exact) / count
    squares = sum((value - center) ** 2 for value in exact)
    result = float(squares / divisor)
    spread = float(sum(value**2 for value in exact) / divisor)
    roundoff = 8 * count * ROUNDOFF
    return Close(result, roundoff * math.sqrt(result * spread) + roundoff**2 * spread)


def root(squared: Close | None) -> RootClose | None:
    if squared is None:
        return None
    return RootClose(Close(squared.value, squared.tolerance + 4 * ROUNDOFF * abs(squared.value)))


def exact_sum(values: Sequence[Any]) -> Any:
    if isinstance(values[0], Decimal):
        result = Decimal(0)
        for value in values:
            result = EXACT.add(result, value)
        return result
    return sum(values)


def require_fits(value: Any, kind: pa.DataType) -> None:
    """Raise OverflowError unless `kind` can hold `value`."""
    if pa.types.is_decimal(kind):
        fits = abs(EXACT.scaleb(value, kind.scale)) < 10**kind.precision
    elif pa.types.is_uint64(kind):
        fits = value in UINT64
    else:
        fits = value in INT64
    if not fits:
        raise OverflowError(f"{value} does not fit {kind}")


def same(expected: Any, got: Any) -> bool:
    """Whether `got` is the expected value of an aggregate."""
    if isinstance(expected, Close | RootClose | Near | Among | Sketch):
        return expected == got
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(map(same, expected, got))
    if isinstance(expected, dict) and isinstance(got, dict):
        return expected.keys() == got.keys() and all(same(expected[name], got[name]) for name in expected)
    if isinstance(expected, float) and math.isnan(expected):
        return isinstance(got, float) and math.isnan(got)
    return type(expected) is type(got) and bool(expected == got)
