"""Aggregate functions of users' own, over Arrow arrays, against the same written over a window's rows."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.oracle import extents

WINDOWS: list[wk.Window] = [
    wk.sliding(20, 3).alias("sliding"),
    wk.tumbling(7).alias("tumbling"),
    wk.session(4).alias("session"),
]


def square(values: pa.Array) -> pa.Array:
    return pc.multiply(values, values)


def same(values: pa.Array) -> pa.Array:
    return values


def joined(a: pa.Array, b: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(a, b, "")


def without_beginning(whole: pa.Array, part: pa.Array) -> pa.Array:
    pairs = zip(whole.to_pylist(), part.to_pylist(), strict=True)
    return pa.array([text[len(beginning) :] for text, beginning in pairs], pa.string())


def as_text(values: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(pc.cast(values, pa.string()), "", ";")


def weigh(values: pa.Array, weights: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([pc.multiply(values, weights), weights], ["sum", "weight"])


def add_weighed(a: pa.Array, b: pa.Array) -> pa.Array:
    parts = [pc.add(a.field(name), b.field(name)) for name in ("sum", "weight")]
    return pa.StructArray.from_arrays(parts, ["sum", "weight"])


def weighted_mean(states: pa.Array) -> pa.Array:
    return pc.divide(pc.cast(states.field("sum"), pa.float64()), states.field("weight"))


SQUARES = wk.aggregate("squares", lift=square, combine=pc.add, lower=same, commutative=True)
CONCAT = wk.aggregate("concat", lift=as_text, combine=joined, lower=same)
CUT = wk.aggregate("cut", lift=as_text, combine=joined, lower=same, invert=without_beginning)
TOTAL = wk.aggregate(
    "total", lift=same, combine=pc.add, lower=same, invert=pc.subtract, identity=0, commutative=True
)
WEIGHED = wk.aggregate("weighed", lift=weigh, combine=add_weighed, lower=weighted_mean, commutative=True)

Row = tuple[Any, ...]


def expected(table: pa.Table, of: Callable[[Sequence[int]], Any]) -> dict[Row, Any]:
    """Return ``{(key, window, start, end): of(rows in the order of time and then as they came)}``."""
    keys, times = table["k"].to_pylist(), table["t"].to_pylist()
    result = {}
    for window in WINDOWS:
        for key in set(keys):
            rows = [row for row in range(table.num_rows) if keys[row] == key]
            for start, end, inside, _ in extents(window, rows, times, pa.int64(), {}):
                ordered = sorted(inside, key=lambda row: (times[row], row))
                result[(key, window.name, start, end)] = of(ordered)
    return result


def answered(table: pa.Table, aggregate: wk.Aggregate, batch: int, threads: int) -> dict[Row, Any]:
    query = wk.query(by="k", time="t", windows=WINDOWS, aggs=aggregate.alias("got"))
    batches = table.to_batches(max_chunksize=batch)
    reader = pa.RecordBatchReader.from_batches(table.schema, iter(batches))
    result = query.run(reader, threads=threads).to_pylist()
    rows = {
        (row["k"], row["window_name"], row["window_start"], row["window_end"]): row["got"] for row in result
    }
    assert len(rows) == len(result)
    return rows


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 60))

    def drawn(values: st.SearchStrategy[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), kind)

    return pa.table(
        {
            "k": drawn(st.integers(0, 2), pa.int64()),
            "t": drawn(st.integers(-30, 60), pa.int64()),
            "v": drawn(st.none() | st.integers(-99, 99), pa.int64()),
            "w": drawn(st.none() | st.integers(1, 9), pa.int64()),
            "f": drawn(st.none() | st.booleans(), pa.bool_()),
        }
    )


class TestResults:
    @settings(max_examples=60)
    @given(tables(), st.integers(1, 30), st.integers(1, 3))
    def test_functions_equal_the_same_over_rows(self, table: pa.Table, batch: int, threads: int) -> None:
        v, w, f = (table[name].to_pylist() for name in "vwf")

        def squares(rows: Sequence[int]) -> int | None:
            values = [v[row] ** 2 for row in rows if v[row] is not None]
            return sum(values) if values else None

        def concat(rows: Sequence[int]) -> str | None:
            return "".join(f"{v[row]};" for row in rows if v[row] is not None) or None

        def total(rows: Sequence[int]) -> int:
            return sum(v[row] for row in rows if v[row] is not None and f[row])

        def weighed(rows: Sequence[int]) -> float | None:
            rows = [row for row in rows if v[row] is not None and w[row] is not None]
            return sum(v[row] * w[row] for row in rows) / sum(w[row] for row in rows) if rows else None

        for aggregate, of in [
            (SQUARES("v"), squares),
            (CONCAT("v"), concat),
            (CUT("v"), concat),
            (TOTAL("v").where("f"), total),
            (WEIGHED("v", "w"), weighed),
        ]:
            assert answered(table, aggregate, batch, threads) == expected(table, of), str(aggregate)

    @pytest.mark.slow
    @pytest.mark.parametrize("threads", [1, 2])
    @pytest.mark.parametrize("aggregate", [CONCAT, CUT, SQUARES], ids=lambda function: function.name)
    def test_many_rows_out_of_order(self, aggregate: wk.UserFunction, threads: int) -> None:
        chance = np.random.default_rng(3)
        rows = 40_000
        times = np.arange(rows) // 4 - chance.integers(0, 60, rows)
        table = pa.table({"k": chance.integers(0, 3, rows), "t": times, "v": chance.integers(0, 9, rows)})
        query = wk.query(by="k", time="t", windows=wk.sliding(50, 10), aggs=aggregate("v").alias("got"))
        got = {
            (row["k"], row["window_start"]): row["got"]
            for row in query.run(table, threads=threads).to_pylist()
        }
        k, v = table["k"].to_numpy(), table["v"].to_numpy()
        assert len(got) == len(
            {(key, t // 10 * 10 - 10 * b) for key, t in zip(k, times, strict=True) for b in range(5)}
        )
        for (key, start), value in list(got.items())[::97]:
            inside = np.flatnonzero((k == key) & (times >= start) & (times < start + 50))
            inside = inside[np.lexsort((inside, times[inside]))]
            texts = "".join(f"{v[row]};" for row in inside)
            assert value == (int((v[inside] ** 2).sum()) if aggregate is SQUARES else texts)

    def test_more_rows_than_are_lifted_at_once(self) -> None:
        rows = 600_000
        values = np.arange(rows) % 1000
        table = pa.table({"t": np.arange(rows) // 100, "v": values})
        query = wk.query(by=[], time="t", windows=wk.tumbling(1000), aggs=[SQUARES("v"), wk.count()])
        for threads in (1, 2):
            result = query.run(table, threads=threads).sort_by([("window_start", "ascending")])
            assert result["squares(v)"].to_pylist() == [100 * sum(n * n for n in range(1000))] * 6

    def test_a_state_may_be_anything_and_the_result_of_another_type(self) -> None:
        extent = wk.aggregate(
            "extent",
            lift=lambda v: pa.StructArray.from_arrays([v, v], ["low", "high"]),
            combine=lambda a, b: pa.StructArray.from_arrays(
                [
                    pc.min_element_wise(a.field("low"), b.field("low")),
                    pc.max_element_wise(a.field("high"), b.field("high")),
                ],
                ["low", "high"],
            ),
            lower=lambda s: pc.cast(pc.subtract(s.field("high"), s.field("low")), pa.float32()),
            commutative=True,
        )
        table = pa.table({"t": [0, 1, 2, 30], "v": pa.array([3, 9, None, 4], pa.int16())})
        query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=extent("v"))
        assert query.schema(table).field("extent(v)").type == pa.float32()
        assert sorted(query.run(table)["extent(v)"].to_pylist()) == [0.0, 6.0]

    def test_results_may_be_numpy_arrays_and_chunked(self) -> None:
        function = wk.aggregate(
            "f",
            lift=lambda v: pa.chunked_array([v]),
            combine=lambda a, b: np.add(a.to_numpy(), b.to_numpy()),
            lower=lambda s: np.sqrt(s.to_numpy()),
            commutative=True,
        )
        table = pa.table({"t": [0, 1], "v": [16.0, 9.0]})
        query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=function("v"))
        assert query.run(table)["f(v)"].to_pylist() == [5.0]

    @pytest.mark.parametrize("rows", [0, 1])
    def test_no_rows_and_one(self, rows: int) -> None:
        table = pa.table({"t": [0, 1, 2], "v": [1.5, 2.5, 4.0]}).slice(0, rows)
        query = wk.query(by=[], time="t", windows=wk.sliding(4, 2), aggs=SQUARES("v"))
        assert query.run(table)["squares(v)"].to_pylist() == [2.25] * 2 * rows

    @pytest.mark.parametrize("invert", [None, pc.subtract])
    def test_calls_do_not_grow_with_windows(self, invert: Callable[..., Any] | None) -> None:
        calls = 0

        def counted(a: pa.Array, b: pa.Array) -> pa.Array:
            nonlocal calls
            calls += 1
            return pc.add(a, b)

        function = wk.aggregate("f", lift=same, combine=counted, lower=same, invert=invert, commutative=True)
        rows = 20_000
        table = pa.table({"t": np.arange(rows), "v": np.arange(rows)})
        query = wk.query(by=[], time="t", windows=wk.sliding(100, 1), aggs=function("v"))
        result = query.run(table, threads=1).sort_by([("window_start", "ascending")])
        assert result.num_rows == rows + 99
        assert result["f(v)"][99].as_py() == sum(range(100))
        # Two calls per level of blocks and each side, and some per block of keys.
        assert calls < 12 * math.log2(rows)


class TestSharing:
    def test_one_function_of_one_column_is_stored_once(self) -> None:
        aggs = [SQUARES("v"), SQUARES("v").alias("again"), SQUARES("v").where("f"), TOTAL("v")]
        query = wk.query(by=[], time="t", windows=wk.tumbling(1), aggs=aggs)
        assert "  store squares(v), squares(v) where f, total(v)\n" in query.explain()
        said = query.explain().splitlines()[-4:]
        assert said[0] == "  squares(v): squares(v); algebraic, associative, commutative"
        assert said[3] == "  total(v): total(v); algebraic, associative, commutative, invertible"

    def test_queries_with_functions_of_a_module_are_pickled(self) -> None:
        query = wk.query(by=[], time="t", windows=wk.tumbling(9), aggs=CONCAT("v"))
        again = pickle.loads(pickle.dumps(query))
        assert again == query
        table = pa.table({"t": [2, 1], "v": [20, 10]})
        assert again.run(table)["concat(v)"].to_pylist() == ["10;20;"]


def failing(**changed: Any) -> wk.Query:
    functions: dict[str, Any] = {"lift": same, "combine": pc.add, "lower": same, "commutative": True}
    function = wk.aggregate("mine", **(functions | changed))
    return wk.query(by=[], time="t", windows=wk.sliding(4, 2), aggs=[wk.count(), function("v")])


class TestErrors:
    TABLE = pa.table({"t": [0, 1, 2, 3, 4, 5], "v": [1, 2, 3, 4, 5, 6]})

    @pytest.mark.parametrize("what", ["lift", "combine", "lower", "invert"])
    def test_what_it_raises_reaches_the_user_with_its_name(self, what: str) -> None:
        def raises(*arrays: pa.Array) -> pa.Array:
            if len(arrays[0]) > 0:
                raise ZeroDivisionError("by nothing")
            return arrays[0]

        query = failing(**{what: raises})
        with pytest.raises(wk.InvalidValue, match=rf"mine: {what} failed with ZeroDivisionError") as caught:
            query.run(self.TABLE)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert query.schema(self.TABLE).names == ["window_start", "window_end", "count(1)", "mine(v)"]

    @pytest.mark.parametrize("what", ["lift", "combine", "lower", "invert"])
    def test_a_wrong_length(self, what: str) -> None:
        query = failing(**{what: lambda *arrays: arrays[0][:1]})
        with pytest.raises(
            wk.InvalidValue, match=rf"mine: {what} returned 1 entries for \d+; it must return as many"
        ):
            query.run(self.TABLE)

    @pytest.mark.parametrize("what", ["lift", "combine", "lower", "invert"])
    def test_a_wrong_type(self, what: str) -> None:
        def fickle(*arrays: pa.Array) -> pa.Array:
            return arrays[0] if len(arrays[0]) == 0 else arrays[0].cast(pa.float32())

        with pytest.raises(wk.InvalidValue, match=rf"mine: {what} returned float; expected int64"):
            failing(**{what: fickle}).run(self.TABLE)

    def test_types_that_do_not_fit_each_other_are_refused_before_rows_are_read(self) -> None:
        query = failing(combine=lambda a, b: pc.cast(a, pa.string()))
        for ask in (query.schema, query.run):
            with pytest.raises(wk.InvalidValue, match="mine: combine returned string; expected int64"):
                ask(self.TABLE)
        query = failing(lift=lambda v: None)
        with pytest.raises(wk.InvalidValue, match="mine: lift failed with TypeError"):
            query.schema(self.TABLE)
        query = failing(identity="nothing")
        with pytest.raises(wk.InvalidValue, match="mine: identity failed with ArrowInvalid"):
            query.schema(self.TABLE)

    def test_an_interrupt_is_not_the_functions(self) -> None:
        def interrupted(states: pa.Array) -> pa.Array:
            if len(states) > 0:
                raise KeyboardInterrupt
            return states

        with pytest.raises(KeyboardInterrupt):
            failing(lower=interrupted).run(self.TABLE)

    def test_batches_raise_it_too(self) -> None:
        def raises(states: pa.Array) -> pa.Array:
            if len(states) > 0:
                raise LookupError
            return states

        with pytest.raises(wk.InvalidValue, match="mine: lower failed with LookupError"):
            failing(lower=raises).batches(self.TABLE).read_all()
