"""`windowkit.kernels.Window` against its definition: a deque, evaluated anew after each operation."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from collections import deque
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import windowkit as wk
from support.plain import INTEGER_TYPES
from windowkit.kernels import Window

FUNCTIONS = ("sum", "mean", "min", "max", "count", "var", "std", "argmin", "argmax", "first", "last")
ALGORITHMS = ("daba", "two_stacks")
Row = tuple[int, Any]


def order(value: Any) -> Any:
    """A key with NaN greatest and zeros equal."""
    return (True, 0.0) if isinstance(value, float) and math.isnan(value) else (False, value)


def exact(values: Sequence[Any]) -> Fraction | float:
    """The sum of floats: of finite ones as a fraction, else by IEEE 754."""
    if all(map(math.isfinite, values)):
        return sum(map(Fraction, values), Fraction(0))
    return sum(value for value in values if not math.isfinite(value))


def naive(agg: str, rows: Sequence[Row], ddof: int = 1) -> Any:
    """Return the aggregate of numbered rows; floats as fractions where that is exact."""
    valid = [(row, value) for row, value in rows if value is not None]
    values = [value for _, value in valid]
    if agg == "count":
        return len(values)
    if not values or (agg in ("var", "std") and len(values) <= ddof):
        return None
    if agg in ("first", "last"):
        return values[0 if agg == "first" else -1]
    if agg in ("min", "max", "argmin", "argmax"):
        best = (min if agg.endswith("min") else max)(valid, key=lambda each: order(each[1]))
        return best[0] if agg.startswith("arg") else best[1]
    total = exact(values)
    if agg == "sum" or not isinstance(total, Fraction):
        return total if agg in ("sum", "mean") else math.nan
    if agg == "mean":
        return total / len(values)
    mean = total / len(values)
    variance = sum((Fraction(value) - mean) ** 2 for value in values) / (len(values) - ddof)
    return variance if agg == "var" else math.sqrt(variance)


def assert_close(got: Any, want: Any, rows: Sequence[Row]) -> None:
    """Compare an answer with a fraction within the error that the docstring promises."""
    if want is None or isinstance(want, int | str | datetime | Decimal) or got is None:
        assert got == want
    elif isinstance(want, float) and not math.isfinite(want):
        assert got == want or (math.isnan(got) and math.isnan(want))
    else:
        # One rounding of the result, one more of a division; deviations add a little per row for variances.
        assert abs(Fraction(got) - Fraction(want)) <= Fraction(want) * Fraction(1, 2**46) or got == float(
            want
        )


class Against(RuleBasedStateMachine):
    """A window and a deque, through the same operations."""

    values = st.one_of(
        st.none(),
        st.integers(-1000, 1000).map(lambda value: value / 8),
        st.sampled_from([-0.0, math.nan, math.inf]),
    )

    @initialize(agg=st.sampled_from(FUNCTIONS), algorithm=st.sampled_from(ALGORITHMS), ddof=st.integers(0, 2))
    def start(self, agg: str, algorithm: str, ddof: int) -> None:
        self.agg, self.ddof = agg, ddof
        freedom = ddof if agg in ("var", "std") else None
        self.window = Window(agg, pa.float64(), algorithm=algorithm, ddof=freedom)
        self.rows: deque[Row] = deque()
        self.next = 0

    def push(self, values: Sequence[float | None]) -> None:
        for value in values:
            self.rows.append((self.next, value))
            self.next += 1

    @rule(value=values)
    def insert(self, value: float | None) -> None:
        self.window.insert(value)
        self.push([value])

    @rule(values=st.lists(values, max_size=40), cut=st.integers(0, 40))
    def insert_many(self, values: list[float | None], cut: int) -> None:
        array = pa.array(values, pa.float64())
        self.window.insert(pa.chunked_array([array[:cut], array[cut:]], pa.float64()))
        self.push(values)

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        n = data.draw(st.integers(0, len(self.rows)))
        self.window.evict(n)
        for _ in range(n):
            self.rows.popleft()

    @rule(more=st.integers(1, 5))
    def evict_too_many(self, more: int) -> None:
        with pytest.raises(wk.InvalidValue, match="cannot be evicted"):
            self.window.evict(len(self.rows) + more)

    @rule(values=st.lists(values, max_size=40), size=st.integers(1, 30), data=st.data())
    def slide(self, values: list[float | None], size: int, data: st.DataObject) -> None:
        least = data.draw(st.integers(0, size))
        got = self.window.slide(pa.array(values, pa.float64()), size, min_periods=least).to_pylist()
        assert len(got) == len(values)
        while len(self.rows) > size:
            self.rows.popleft()
        for value, answer in zip(values, got, strict=True):
            self.push([value])
            while len(self.rows) > size:
                self.rows.popleft()
            enough = sum(value is not None for _, value in self.rows) >= least
            want = naive(self.agg, self.rows, self.ddof) if enough else None
            self.compare(answer, want)

    @rule()
    def clear(self) -> None:
        self.window.clear()
        self.rows.clear()

    def compare(self, got: Any, want: Any) -> None:
        if self.agg in ("min", "max", "first", "last") and want is not None:
            assert got == want or (math.isnan(got) and math.isnan(want))
        else:
            assert_close(got, want, self.rows)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "window"):
            return
        assert len(self.window) == len(self.rows)
        assert self.window.null_count == sum(value is None for _, value in self.rows)
        self.compare(self.window.query().as_py(), naive(self.agg, self.rows, self.ddof))


TestAgainstADeque = Against.TestCase


@given(
    values=st.lists(
        st.floats(allow_nan=False, allow_infinity=False, width=64, max_value=1e300, min_value=-1e300),
        min_size=1,
        max_size=60,
    ),
    size=st.integers(1, 20),
    algorithm=st.sampled_from(ALGORITHMS),
)
def test_float_sums_err_by_no_more_than_they_promise(values: list[float], size: int, algorithm: str) -> None:
    got = Window("sum", "float64", algorithm=algorithm).slide(pa.array(values), size).to_pylist()
    for end, answer in enumerate(got, start=1):
        window = values[max(0, end - size) : end]
        total, magnitude = sum(map(Fraction, window)), sum(abs(Fraction(value)) for value in window)
        bound = Fraction(abs(total), 2**53) + Fraction(len(window) * magnitude, 2**103)
        # The smallest float may be as far as results are apart.
        assert abs(Fraction(answer) - total) <= bound + Fraction(5e-324)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_long_stream_leaves_no_trace(algorithm: str) -> None:
    random = np.random.default_rng(7)
    values = random.standard_normal(200_000) * 10.0 ** random.integers(-12, 12, 200_000)
    window = Window("sum", pa.float64(), algorithm=algorithm)
    for batch in np.array_split(values, 7):
        got = window.slide(batch, 1000)
    assert got[-1].as_py() == math.fsum(values[-1000:])
    assert window.query().as_py() == math.fsum(values[-1000:])


def test_variances_keep_their_digits_under_a_large_offset() -> None:
    noise = np.random.default_rng(3).integers(0, 2**20, 4000) / 2**20
    got = Window("var", pa.float64()).slide(pa.array(1e9 + noise), 500)[-1].as_py()
    assert got == pytest.approx(noise[-500:].var(ddof=1), rel=1e-12)


@pytest.mark.parametrize("agg", FUNCTIONS)
def test_batches_of_a_stream_are_one_rolling_aggregate(agg: str) -> None:
    random = np.random.default_rng(1)
    values = pa.array(random.integers(-50, 50, 5000), mask=random.random(5000) < 0.1, type=pa.int32())
    window = Window(agg, pa.int32())
    batches = [values[at : at + 700] for at in range(0, 5000, 700)]
    got = pa.concat_arrays([window.slide(batch, 100) for batch in batches])
    assert got.type == window.result_type
    peer = pd.Series(values.to_pandas()).rolling(100, min_periods=0 if agg == "count" else 1)
    if agg in ("sum", "mean", "min", "max", "count", "var", "std"):
        want = getattr(peer, agg)()
        np.testing.assert_allclose(got.to_pandas().astype(float), want, rtol=1e-12)
    else:
        rows = list(enumerate(values.to_pylist()))
        ends = [0, 1, 99, 100, 699, 700, 4999]
        assert [got[end].as_py() for end in ends] == [
            naive(agg, rows[max(0, end - 99) : end + 1]) for end in ends
        ]


INTEGERS: list[Any] = [3, None, 1, 3, 127, 0]
CASES: list[tuple[pa.DataType, list[Any]]] = [
    *((kind, INTEGERS) for kind in INTEGER_TYPES),
    *((pa.type_for_alias(f"float{bits}"), [1.5, None, -0.25, 1.5, 3.0, 0.0]) for bits in (32, 64)),
    (pa.bool_(), [True, None, False, True, False, True]),
    (
        pa.date32(),
        [date(2024, 2, 29), None, date(1969, 1, 1), date(2024, 2, 29), date(9999, 1, 1), date(1, 1, 1)],
    ),
    (pa.time64("us"), [time(1, 2, 3, 4), None, time(0), time(1, 2, 3, 4), time(23, 59), time(12)]),
    *(
        (pa.timestamp(unit, zone), [datetime(2024, 1, day, tzinfo=None) for day in (3, 1, 2, 3, 9, 4)])
        for unit in ("s", "ms", "us")
        for zone in (None,)
    ),
    *(
        (pa.duration(unit), [timedelta(seconds=value) if value is not None else None for value in INTEGERS])
        for unit in ("s", "ms", "us")
    ),
    (
        pa.decimal128(9, 2),
        [Decimal("1.25"), None, Decimal("-3.50"), Decimal("1.25"), Decimal("99.99"), Decimal(0)],
    ),
]


def sum_of(values: list[Any]) -> Any:
    total = values[0]
    for value in values[1:]:
        total += value
    return total


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("kind", "values"), CASES, ids=str)
def test_types(kind: pa.DataType, values: list[Any], algorithm: str) -> None:
    valid = [value for value in values[1:5] if value is not None]
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    wants: dict[str, tuple[pa.DataType, Any]] = {
        "min": (kind, min(valid)),
        "max": (kind, max(valid)),
        "first": (kind, valid[0]),
        "last": (kind, valid[-1]),
        "argmin": (pa.int64(), values.index(min(valid), 1)),
        "argmax": (pa.int64(), values.index(max(valid), 1)),
        "count": (pa.int64(), len(valid)),
    }
    if numeric or pa.types.is_duration(kind):
        wants["sum"] = (summed(kind), sum_of(valid))
    if pa.types.is_decimal(kind):
        with localcontext() as context:
            context.prec = 60
            mean = (sum_of(valid) / len(valid)).quantize(Decimal("1e-6"), ROUND_HALF_UP)
        wants["mean"] = (pa.decimal128(13, 6), mean)
    elif numeric:
        wants["mean"] = (pa.float64(), float(sum_of(valid)) / len(valid))
    if numeric:
        floats = [float(value) for value in valid]
        wants["var"] = (pa.float64(), pytest.approx(np.var(floats, ddof=1)))
        wants["std"] = (pa.float64(), pytest.approx(np.std(floats, ddof=1)))
    array = pa.array([None, *values, None], kind)[1:-1]
    for agg, (result_type, want) in wants.items():
        window = Window(agg, kind, algorithm=algorithm)
        window.insert(array[:3])
        for value in values[3:5]:
            window.insert(value)
        window.evict()
        assert window.result_type == result_type
        answer = window.query()
        assert answer.type == result_type
        assert answer.as_py() == want, agg
        window.evict(len(window))
        assert window.query().as_py() == (0 if agg == "count" else None)
    for agg in set(FUNCTIONS) - set(wants):
        if not (agg == "mean" and pa.types.is_duration(kind)):
            with pytest.raises(wk.InvalidType, match="type: "):
                Window(agg, kind)


def summed(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_signed_integer(kind):
        return pa.int64()
    if pa.types.is_unsigned_integer(kind):
        return pa.uint64()
    if pa.types.is_floating(kind):
        return pa.float64()
    return pa.decimal128(kind.precision + 10, kind.scale) if pa.types.is_decimal(kind) else kind


def test_nanoseconds_and_zones_are_kept() -> None:
    kind = pa.timestamp("ns", "Europe/Berlin")
    window = Window("max", kind)
    window.insert(pa.array([1, 1_700_000_000_123_456_789, 5], kind))
    assert window.query().equals(pa.scalar(1_700_000_000_123_456_789, kind))
    window.insert(pa.scalar(1_800_000_000_000_000_001, kind))
    assert window.query().value == 1_800_000_000_000_000_001


def test_any_type_is_counted() -> None:
    window = Window("count", pa.list_(pa.string()))
    window.insert(pa.array([["a"], None, []], pa.list_(pa.string())))
    window.insert(["b"])
    window.insert(None)
    assert (window.query().as_py(), len(window), window.null_count) == (3, 5, 2)


def test_columns_of_other_libraries() -> None:
    for column in (
        np.array([1.0, 2.0]),
        np.ma.array([1.0, 2.0]),
        np.array([1.0, 2.0]).view(type("Own", (np.ndarray,), {})),
        pd.Series([1.0, 2.0]),
        type("Own", (pd.Series,), {})([1.0, 2.0]),
        pd.Index([1.0, 2.0]),
        pl.Series([1.0, 2.0]),
        pa.chunked_array([[1.0], [], [2.0]]),
        pl.concat([pl.Series([1.0]), pl.Series([2.0])], rechunk=False),
    ):
        window = Window("sum", pa.float64())
        window.insert(column)
        assert (window.query().as_py(), len(window)) == (3.0, 2)
        assert Window("sum", pa.float64()).slide(column, 1).to_pylist() == [1.0, 2.0]


def test_empty_columns() -> None:
    window = Window("sum", pa.int64())
    for column in (pa.array([], pa.int64()), pa.chunked_array([], pa.int64())):
        window.insert(column)
        assert window.slide(column, 3).equals(pa.array([], pa.int64()))
    assert len(window) == 0
    assert not window.query().is_valid


def test_an_integer_sum_that_overflows_leaves_the_window_as_it_was() -> None:
    window = Window("sum", pa.int64())
    window.insert(pa.array([2**63 - 1, 1]))
    with pytest.raises(wk.Overflow, match="9223372036854775808"):
        window.query()
    assert len(window) == 2
    window.insert(-1)
    assert window.query().as_py() == 2**63 - 1
    with pytest.raises(wk.Overflow):
        window.slide(pa.chunked_array([[0], [5]]), 5)
    assert (len(window), window.query().as_py()) == (3, 2**63 - 1)
    assert window.slide(pa.array([5]), 2).to_pylist() == [4]


def test_threads_take_turns() -> None:
    window = Window("sum", pa.int64())

    def work() -> None:
        for _ in range(500):
            window.insert(1)
            window.slide(pa.array([1]), 10_000)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert window.query().as_py() == 4 * 500 * 2


def test_what_a_window_says_of_itself() -> None:
    window = Window("mean", "int32", algorithm="two_stacks")
    window.insert(4)
    assert (window.agg, window.type, window.result_type) == ("mean", pa.int32(), pa.float64())
    assert (window.algorithm, repr(window)) == ("two_stacks", "<Window mean(int32), 1 rows, two_stacks>")
    assert wk.kernels.Window is Window


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        (("median", pa.int64()), {}, wk.InvalidValue, "agg: 'median'"),
        ((3, pa.int64()), {}, wk.InvalidType, "agg: 3"),
        (("sum", pa.string()), {}, wk.InvalidType, "type: sum"),
        (("var", pa.duration("s")), {}, wk.InvalidType, "type: var"),
        (("first", pa.string()), {}, wk.InvalidType, "type: a window cannot hold values of type"),
        (("sum", "integer"), {}, wk.InvalidValue, "type: 'integer'"),
        (("sum", int), {}, wk.InvalidType, "type: <class 'int'>"),
        (("sum", pa.int64()), {"algorithm": "recalculate"}, wk.InvalidValue, "algorithm: 'recalculate'"),
        (("sum", pa.int64()), {"algorithm": None}, wk.InvalidType, "algorithm: None"),
        (("var", pa.int64()), {"ddof": -1}, wk.InvalidValue, "ddof: -1"),
        (("var", pa.int64()), {"ddof": 2**40}, wk.InvalidValue, "ddof: "),
        (("var", pa.int64()), {"ddof": 1.5}, wk.InvalidType, "ddof: 1.5"),
        (("sum", pa.int64()), {"ddof": 1}, wk.InvalidValue, "ddof: 1 was given with agg 'sum'"),
    ],
)
def test_windows_that_cannot_be(
    arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        Window(*arguments, **options)


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        ("int8", 128, wk.InvalidValue),
        ("int64", 2**63, wk.InvalidValue),
        ("int64", 2**64, wk.InvalidValue),
        ("uint64", -1, wk.InvalidValue),
        ("int64", 1.5, wk.InvalidType),
        ("int64", "1", wk.InvalidType),
        ("int64", [1, 2], wk.InvalidType),
        ("float64", "1", wk.InvalidType),
        ("int64", pa.scalar(1, pa.int32()), wk.InvalidType),
        ("int64", pa.array([1], pa.int32()), wk.InvalidType),
        ("int64", pa.array(["a"]).dictionary_encode(), wk.InvalidType),
        ("int64", pa.table({"a": [1]}), wk.InvalidType),
        ("int64", pl.DataFrame({"a": [1]}), wk.InvalidType),
        ("int64", np.zeros((2, 2)), wk.InvalidType),
        ("date32", "2024-01-01", wk.InvalidType),
        ("duration[ns]", timedelta(days=999_999_999), wk.InvalidValue),
        (pa.decimal128(3, 1), Decimal("100.5"), wk.InvalidValue),
        ("float32", 1e300, wk.InvalidValue),
        ("float32", -(10**100), wk.InvalidValue),
        ("float32", np.float64(1e39), wk.InvalidValue),
        ("float16", 70000.0, wk.InvalidValue),
        (pa.decimal128(3, 1), "1.5", wk.InvalidType),
    ],
)
def test_values_that_do_not_fit(kind: Any, value: Any, error: type[Exception]) -> None:
    window = Window("max", kind)
    window.insert(pa.array([None], kind))
    with pytest.raises(error, match="value"):
        window.insert(value)
    assert len(window) == 1


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda window: window.evict(2), wk.InvalidValue, "n: 2 rows cannot be evicted from a window of 1"),
        (lambda window: window.evict(-1), wk.InvalidValue, "n: -1"),
        (lambda window: window.evict(2**70), wk.InvalidValue, "n: "),
        (lambda window: window.evict(1.0), wk.InvalidType, "n: 1.0"),
        (lambda window: window.evict(True), wk.InvalidType, "n: True"),
        (lambda window: window.slide(pa.array([1]), 0), wk.InvalidValue, "size: 0"),
        (lambda window: window.slide(pa.array([1]), "3"), wk.InvalidType, "size: '3'"),
        (lambda window: window.slide(pa.array([1]), 3, min_periods=4), wk.InvalidValue, "min_periods: 4"),
        (lambda window: window.slide(pa.array([1]), 3, min_periods=-1), wk.InvalidValue, "min_periods: -1"),
        (lambda window: window.slide([1], 3), wk.InvalidType, "values: a list is not a column"),
        (lambda window: window.slide(1, 3), wk.InvalidType, "values: an int is not a column"),
        (lambda window: window.slide(pa.array([1.0]), 3), wk.InvalidType, "values: double in a window"),
    ],
)
def test_operations_that_cannot_be(call: Any, error: type[Exception], text: str) -> None:
    window = Window("sum", pa.int64())
    window.insert(7)
    with pytest.raises(error, match=text):
        call(window)
    assert (len(window), window.query().as_py()) == (1, 7)


def test_infinities_and_what_rounds_to_the_greatest_float_are_no_overflow() -> None:
    window = Window("last", "float32")
    greatest = float(np.finfo(np.float32).max)
    for value in (
        math.inf,
        -math.inf,
        greatest * (1 + 1e-9),
        pa.scalar(math.inf, pa.float32()),
        np.float32(2),
    ):
        window.insert(value)
        wanted = np.float32(value.as_py() if isinstance(value, pa.Scalar) else value)
        assert window.query().as_py() == wanted
    window.insert(math.nan)
    assert math.isnan(window.query().as_py())


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_window_cannot_be_copied(make: Any) -> None:
    window = Window("sum", "int64")
    window.insert(7)
    with pytest.raises(wk.InvalidType, match="a Window cannot be copied or pickled"):
        make(window)
    assert (len(window), window.query().as_py()) == (1, 7)
