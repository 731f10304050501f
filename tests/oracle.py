"""What a query means, evaluated naively from the definitions, in plain Python and exact arithmetic.

Windows are Li's ``extent()`` (2008, §5.1): for each window the rows it contains, found by looking at all of
them. Nothing here knows slices, panes or partial aggregates, and nothing is shared with the package but the
query itself.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
from datasketches import hll_sketch

import windowkit as wk

UNIT_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY_NANOSECONDS = 86_400 * 10**9
INT64 = range(-(2**63), 2**63)
UINT64 = range(2**64)
EXACT = Context(prec=200)
ROUNDOFF = 2.0**-53
NAN = "NaN"


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


Row = tuple[Any, ...]
"""Keys, window name if there are several windows, start, end, and ranks where a window of the query has them.
Of windows between marks several may have one name: all but the first have a number, too."""


def evaluate(query: wk.Query, table: pa.Table) -> dict[Row, list[Any]]:
    """Return ``{(*keys, [window name,] start, end): aggregates}``.

    Raises OverflowError if an aggregate does not fit its type. Times are such that windows fit theirs.
    """
    time_type = table.schema.field(query.time).type
    times = plain(table[query.time])
    keys = [[key(value) for value in plain(table[name])] for name in query.by]
    groups: dict[Row, list[int]] = defaultdict(list)
    for row, time in enumerate(times):
        if time is not None:
            groups[tuple(column[row] for column in keys)].append(row)

    columns = {name: plain(table[name]) for name in query.inputs}
    result: dict[Row, list[Any]] = {}
    for window in query.windows:
        name = (window.name,) if len(query.windows) > 1 else ()
        for group, rows in groups.items():
            for start, end, inside, ranks in extents(window, rows, times, time_type, columns):
                ranked = (ranks,) if query.has_ranks else ()
                at = numbered((*group, *name, start, end, *ranked), result, window)
                result[at] = [
                    aggregate(each, taken(each, inside, columns), times, columns, table.schema)
                    for each in query.aggs
                ]
    return result


def numbered(at: Row, known: dict[Row, list[Any]], window: wk.Window) -> Row:
    """Return `at`, with a number if another window has it already."""
    if at not in known:
        return at
    assert isinstance(window, wk.Punctuation), f"window {at} twice"
    return next(each for number in range(len(known)) if (each := (*at, number)) not in known)


def taken(each: wk.Aggregate, rows: Sequence[int], columns: dict[str, list[Any]]) -> Sequence[int]:
    """Return the rows that the filter of an aggregate takes."""
    return rows if each.filter is None else [row for row in rows if columns[each.filter][row]]


Ranks = tuple[int, int] | None


def extents(
    window: wk.Window,
    rows: Sequence[int],
    times: Sequence[int],
    time_type: pa.DataType,
    columns: dict[str, list[Any]],
) -> Iterable[tuple[int, int, list[int], Ranks]]:
    """Yield start, end, rows and ranks (if it is measured by rows) of each window that has rows."""
    ranked = sorted(rows, key=lambda row: (times[row], row))
    if isinstance(window, wk.Global):
        yield times[ranked[0]], times[ranked[-1]], ranked, None
    elif isinstance(window, wk.Band):
        start, end = in_units(window.start, time_type), in_units(window.end, time_type)
        inside = [row for row in rows if start <= times[row] < end]
        if inside:
            yield start, end, inside, None
    elif isinstance(window, wk.Landmark):
        yield from landmarks(window, rows, times, time_type)
    elif isinstance(window, wk.Punctuation):
        for run in runs(ranked, columns[window.column], window.at):
            yield times[run[0]], times[run[-1]], run, None
    elif window.counts_rows:
        for lo, hi, extent in by_rows(window, [times[row] for row in ranked], time_type):
            start, end = extent or (times[ranked[lo]], times[ranked[hi - 1]])
            yield start, end, ranked[lo:hi], (lo, hi)
    else:
        for start, end, inside in by_time(window, rows, times, time_type):
            yield start, end, inside, None


def landmarks(
    window: wk.Landmark, rows: Sequence[int], times: Sequence[int], time_type: pa.DataType
) -> Iterable[tuple[int, int, list[int], None]]:
    """Yield the windows ``[s, s + j * every)`` with a row in the last `every` of them."""
    every = in_units(window.every, time_type)
    seen = set()
    for row in rows:
        if window.period is None:
            start = in_units(window.start, time_type)
        else:
            offset, period = in_units(window.start_time or 0, time_type), in_units(window.period, time_type)
            start = times[row] - (times[row] - offset) % period
        if times[row] < start:
            continue
        end = start + ((times[row] - start) // every + 1) * every
        if (start, end) not in seen:
            seen.add((start, end))
            yield start, end, [other for other in rows if start <= times[other] < end], None


def runs(ranked: Sequence[int], marks: Sequence[bool | None], at: str) -> Iterable[list[int]]:
    """Yield the runs of rows that marked ones end, or begin."""
    run: list[int] = []
    for row in ranked:
        if at == "start" and marks[row] and run:
            yield run
            run = []
        run.append(row)
        if at == "end" and marks[row]:
            yield run
            run = []
    if run:
        yield run


def by_rows(
    window: wk.Window, times: Sequence[int], time_type: pa.DataType
) -> Iterable[tuple[int, int, tuple[int, int] | None]]:
    """Yield ranks of windows over ascending times, and what they are called if not by their rows."""
    size = window.size
    slide = size if isinstance(window, wk.Tumbling) else window.slide
    if isinstance(size, wk.Rows) and isinstance(slide, wk.Rows):
        for lo in range(0, len(times), slide.count):
            hi = lo + size.count
            if hi <= len(times) or window.partial:
                yield lo, min(hi, len(times)), None
    elif isinstance(size, wk.Rows):
        every, offset = in_units(slide, time_type), in_units(window.start_time or 0, time_type)
        for edge in sorted({time - (time - offset) % every + every for time in times}):
            before = [rank for rank, time in enumerate(times) if time < edge]
            yield before[-size.count :][0], before[-1] + 1, None
    else:
        length = in_units(size, time_type)
        for last in range(slide.count - 1, len(times), slide.count):
            inside = [rank for rank in range(last + 1) if times[last] - length < times[rank]]
            yield inside[0], last + 1, (times[last] - length, times[last])


def by_time(
    window: wk.Window, rows: Sequence[int], times: Sequence[int], time_type: pa.DataType
) -> Iterable[tuple[int, int, list[int]]]:
    """Yield start, end and rows of each session, sliding or tumbling window that has rows."""
    if isinstance(window, wk.Session):
        gap = in_units(window.gap, time_type)
        session: list[int] = []
        for row in sorted(rows, key=lambda row: times[row]):
            if session and times[row] - times[session[-1]] > gap:
                yield times[session[0]], times[session[-1]] + gap, session
                session = []
            session.append(row)
        if session:
            yield times[session[0]], times[session[-1]] + gap, session
        return
    size = in_units(window.size, time_type)
    slide = size if isinstance(window, wk.Tumbling) else in_units(window.slide, time_type)
    offset = in_units(window.start_time or 0, time_type)
    # Window k is [offset + k * slide, offset + k * slide + size); these are all k that have a row.
    numbers = {
        k
        for row in rows
        for k in range((times[row] - size - offset) // slide + 1, (times[row] - offset) // slide + 1)
    }
    for k in numbers:
        start = offset + k * slide
        yield start, start + size, [row for row in rows if start <= times[row] < start + size]


def aggregate(
    each: wk.Aggregate,
    rows: Sequence[int],
    times: Sequence[int],
    columns: dict[str, list[Any]],
    schema: pa.Schema,
) -> Any:
    """Return the value of one aggregate of `rows`."""
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
            in_time = sorted(rows, key=lambda row: (times[row], row))
            return [column[row] for row in in_time if column[row] is not None]
        case "collect_set":
            return distinct(values)
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
        case "sum_without_invert":
            return total(values, kind)
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
    """Return the values whose rank is within 5 % of the one asked for: a sketch errs by less."""
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
    """Return the least, greatest, first and last value, and if asked for the first time of each."""
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


# Types of a result.


def window_type(time_type: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_integer(time_type) else time_type


def sum_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(38, kind.precision + 10), kind.scale)
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_duration(kind):
        return kind
    return pa.uint64() if pa.types.is_unsigned_integer(kind) else pa.int64()


def mean_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(38, kind.precision + 4), min(38, kind.scale + 4))
    return kind if pa.types.is_duration(kind) else pa.float64()


def output_type(function: str, kind: pa.DataType | None, time: pa.DataType) -> pa.DataType:
    """Return the type of an aggregate of a column of type `kind`, by times of type `time`."""
    by_function: dict[str, Callable[[Any], pa.DataType]] = {
        "sum": sum_type,
        "sum_without_invert": sum_type,
        "mean": mean_type,
        "median": quantile_type,
        "quantile": quantile_type,
    }
    if function.startswith("count") or function.endswith(("_count", "_count_distinct")):
        return pa.int64()
    if function == "hll_sketch":
        return pa.binary()
    if function.startswith(("var", "stddev", "geometric")):
        return pa.float64()
    if function.startswith("collect"):
        return pa.list_(pa.field("item", kind))
    if function.startswith("m4"):
        names = ["min", "max", "first", "last"]
        pairs = [[(name, value_type(kind)), (f"{name}_time", time)] for name in names]
        return pa.struct([field for pair in pairs for field in pair[: 2 if function == "m4_times" else 1]])
    return by_function.get(function, value_type)(kind)


def quantile_type(kind: pa.DataType) -> pa.DataType:
    kind = value_type(kind)
    return kind if pa.types.is_temporal(kind) else pa.float64()


def value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def functions_of(kind: pa.DataType) -> list[Callable[[str], wk.Aggregate]]:
    """Return the aggregates that mean something for a column of type `kind`."""
    functions: list[Callable[[str], wk.Aggregate]] = [
        wk.count,
        wk.min,
        wk.max,
        wk.first,
        wk.last,
        lambda name: wk.first(name, ignore_nulls=True),
        lambda name: wk.last(name, ignore_nulls=True),
        wk.min_count,
        wk.max_count,
        lambda name: wk.arg_min(name, by=name),
        lambda name: wk.arg_max(name, by=name),
        wk.m4,
        lambda name: wk.m4(name, times=True),
        wk.count_distinct,
        wk.mode,
        lambda name: wk.quantile(name, 0.3, discrete=True),
        wk.collect_list,
        wk.collect_set,
    ]
    plain_kind = value_type(kind)
    if is_number(plain_kind) or pa.types.is_duration(plain_kind):
        functions += [wk.sum, wk.sum_without_invert, wk.mean]
    if is_number(plain_kind):
        functions += [wk.var_samp, wk.var_pop, wk.stddev_samp, wk.stddev_pop, wk.geometric_mean]
    if quantiles_interpolate(plain_kind):
        functions += [wk.median, lambda name: wk.quantile(name, 0.9), lambda name: wk.quantile(name, 1)]
    if not (pa.types.is_decimal(plain_kind) or is_text(plain_kind)):
        functions += [lambda name: wk.approx_quantile(name, 0.6)]
    if not pa.types.is_decimal(plain_kind):
        functions += [wk.approx_count_distinct, wk.hll_sketch]
    return functions


def quantiles_interpolate(kind: pa.DataType) -> bool:
    return is_number(kind) or pa.types.is_duration(kind) or pa.types.is_timestamp(kind)


def is_text(kind: pa.DataType) -> bool:
    tests = [pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary]
    tests += [pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary]
    return any(test(kind) for test in tests)


# Values as plain Python: integers for all that is a time, so that nothing is rounded or localised.


def plain(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return the values of a column; temporal ones as integers in the column's unit."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return plain(column.cast(kind.value_type))
    if pa.types.is_struct(kind):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        return [row for chunk in chunks for row in plain_structs(chunk)]
    if pa.types.is_list(kind):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        return [row for chunk in chunks for row in plain_lists(chunk)]
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        # A view, and not a cast: a date64 casts to whole days.
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        return [value for chunk in chunks for value in chunk.view(width).to_pylist()]
    return [float(value) if isinstance(value, float) else value for value in column.to_pylist()]


def plain_structs(structs: pa.StructArray) -> list[dict[str, Any] | None]:
    fields = [plain(field) for field in structs.flatten()]
    names = [structs.type.field(at).name for at in range(structs.type.num_fields)]
    valid = structs.is_valid().to_pylist()
    return [
        dict(zip(names, values, strict=True)) if there else None
        for there, *values in zip(valid, *fields, strict=True)
    ]


def plain_lists(lists: pa.ListArray) -> list[list[Any] | None]:
    values, ends = plain(lists.flatten()), [0]
    for length in lists.value_lengths().to_pylist():
        ends.append(ends[-1] + (length or 0))
    valid = lists.is_valid().to_pylist()
    return [
        values[low:high] if there else None for there, low, high in zip(valid, ends, ends[1:], strict=False)
    ]


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return an array whose `plain` values these are."""
    if pa.types.is_dictionary(kind):
        return column(values, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return pa.array(values, kind)


def key(value: Any) -> Any:
    """Return what groups equal keys: NaN equals NaN, and -0.0 equals 0.0."""
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    return value


def nan_last(value: Any) -> Any:
    return (True, 0) if isinstance(value, float) and math.isnan(value) else (False, value)


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


def in_units(measure: Any, time_type: pa.DataType) -> int:
    """Return a window's length, or place, in the units of its time column, exactly."""
    if isinstance(measure, int):
        return measure
    units, rest = divmod(measure.nanoseconds, nanoseconds_per_unit(time_type))
    assert rest == 0, "a test's windows fit the unit of its column"
    return units


def nanoseconds_per_unit(time_type: pa.DataType) -> int:
    if pa.types.is_date32(time_type):
        return DAY_NANOSECONDS
    if pa.types.is_date64(time_type):
        return UNIT_NANOSECONDS["ms"]
    return UNIT_NANOSECONDS[time_type.unit]


# Comparison.


def rows_of(query: wk.Query, result: pa.Table) -> dict[Row, list[Any]]:
    """Return a result as `evaluate` does, having checked that each window is there once."""
    starts_and_ends = result[query.window_column].combine_chunks()
    keys = [[key(value) for value in plain(result[name])] for name in query.by]
    names = [plain(result["window_name"])] if len(query.windows) > 1 else []
    spans = [plain(starts_and_ends.field("start")), plain(starts_and_ends.field("end"))]
    ranks = []
    if query.has_ranks:
        ranked = plain(result["window_rows"])
        ranks = [[at if at is None else (at["start"], at["end"]) for at in ranked]]
    aggregates = [plain(result[each.name]) for each in query.aggs]
    windows = {window.name: window for window in query.windows}
    rows: dict[Row, list[Any]] = {}
    for row in range(result.num_rows):
        at = tuple(column[row] for column in [*keys, *names, *spans, *ranks])
        window = windows[names[0][row]] if names else query.windows[0]
        rows[numbered(at, rows, window)] = [column[row] for column in aggregates]
    return rows


def assert_equal(expected: dict[Row, list[Any]], got: dict[Row, list[Any]]) -> None:
    assert got.keys() - expected.keys() == set(), "windows that are not"
    assert expected.keys() - got.keys() == set(), "windows that are missing"
    for at, values in expected.items():
        for wanted, value in zip(values, got[at], strict=True):
            assert same(wanted, value), f"window {at}: wanted {values}, got {got[at]}"


def assert_types(query: wk.Query, schema: pa.Schema, result: pa.Schema) -> None:
    """Check names and types of the columns of a result of data of type `schema`."""
    wanted = [(name, schema.field(name).type) for name in query.by]
    if len(query.windows) > 1:
        wanted.append(("window_name", pa.string()))
    wanted.append((query.window_column, span_type(schema.field(query.time).type)))
    if query.has_ranks:
        wanted.append(("window_rows", span_type(pa.int64())))
    for each in query.aggs:
        kind = None if each.column is None else schema.field(each.column).type
        wanted.append((each.name, output_type(each.function, kind, schema.field(query.time).type)))
    # Whether values of a dictionary stay encoded is the core's choice.
    got = [(field.name, decoded(field.type)) for field in result]
    assert got == [(name, decoded(kind)) for name, kind in wanted]


def decoded(kind: pa.DataType) -> pa.DataType:
    """Return a type without the dictionaries in it."""
    if pa.types.is_list(kind):
        return pa.list_(pa.field("item", decoded(kind.value_type)))
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([field.with_type(decoded(field.type)) for field in fields])
    return value_type(kind)


def span_type(time_type: pa.DataType) -> pa.DataType:
    edge = window_type(time_type)
    return pa.struct([pa.field("start", edge, nullable=False), pa.field("end", edge, nullable=False)])
