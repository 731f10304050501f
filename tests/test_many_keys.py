"""Keys so many that rows are spread over parts of them, against DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import windowkit as wk

ROWS: Final = 1 << 19
"""As many as are spread, at least."""


def table(kind: str) -> pa.Table:
    """Return rows out of order, of some 200,000 keys and nulls, of which some have no time."""
    random = np.random.default_rng(1)
    numbers = pa.array(random.integers(0, 200_000, ROWS + 5), mask=random.random(ROWS + 5) < 0.001)
    text = numbers.cast(pa.string())
    make: dict[str, Callable[[], dict[str, Any]]] = {
        "int64": lambda: {"k": numbers},
        "far": lambda: {"k": pc.multiply(numbers, 1 << 40)},
        "text": lambda: {"k": pc.binary_join_element_wise("user ", text, "")},
        "view": lambda: {"k": text.cast(pa.string_view())},
        "bytes": lambda: {"k": text.cast(pa.binary())},
        "two": lambda: {"k": pc.bit_wise_and(numbers, 1023), "of": text},
        "decimal": lambda: {"k": numbers.cast(pa.decimal128(21, 2))},
        "float": lambda: {"k": pc.divide(numbers.cast(pa.float64()), 4)},
    }
    times = pa.array(random.integers(0, 1_000, ROWS + 5), mask=random.random(ROWS + 5) < 0.01)
    return pa.table({**make[kind](), "t": times, "v": random.integers(0, 100, ROWS + 5)})


def rows_of(result: pa.Table) -> pa.Table:
    """Return rows in order, of types that pyarrow sorts and DuckDB returns."""
    kinds = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    fields = [
        field.with_type(kinds.get(field.type, field.type)).with_nullable(True) for field in result.schema
    ]
    plain = result.cast(pa.schema(fields))
    return plain.sort_by([(name, "ascending") for name in plain.column_names])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", ["int64", "text", "view", "bytes", "two", "decimal", "float"])
def test_windows_are_those_of_duckdb(kind: str, threads: int) -> None:
    data = table(kind)
    by = [name for name in data.column_names if name not in ("t", "v")]
    query = wk.query(
        by=by,
        time="t",
        windows=wk.tumbling(100),
        aggs=[wk.count().alias("n"), wk.sum("v").alias("s"), wk.median("v").alias("m")],
    )
    keys = ", ".join(by)
    wanted = duckdb.from_arrow(data).query(
        "data",
        f"select {keys}, t // 100 * 100 as window_start, t // 100 * 100 + 100 as window_end, "
        "count(*) as n, sum(v)::bigint as s, median(v) as m from data where t is not null group by all",
    )
    found = query.run(data, threads=threads)
    assert rows_of(found).equals(rows_of(wanted.to_arrow_table()))
    # Whatever the number of threads, and batch by batch.
    assert query.batches(data, threads=4 - threads).read_all() == found


@pytest.mark.parametrize("windows", [wk.sliding(300, 100), wk.session(200)], ids=str)
def test_other_windows(windows: wk.Window) -> None:
    """As of each key alone, which is never spread."""
    data = table("int64")
    query = wk.query(
        by="k", time="t", windows=windows, aggs=[wk.sum("v"), wk.last("v"), wk.count_distinct("v")]
    )
    found = query.run(data)
    few = pc.less(data["k"], 500)
    wanted = query.run(data.filter(few))
    assert rows_of(found.filter(pc.less(found["k"], 500))).equals(rows_of(wanted))


def test_what_is_asked_of_all_keys() -> None:
    """Limits, filled gaps, conditions and slices are of all parts together."""
    data = table("text")
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
    count = query.run(data).num_rows
    limited = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count(), max_windows=count)
    assert limited.run(data).num_rows == count
    with pytest.raises(wk.InvalidValue, match="max_windows"):
        wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count(), max_windows=count - 1).run(data)
    filled = wk.query(by="k", time="t", windows=wk.tumbling(100), aggs=wk.count().alias("n"), fill="zero")
    per_key = duckdb.from_arrow(data).query(
        "data", "select max(t // 100) - min(t // 100) + 1 as n from data where t is not null group by k"
    )
    assert filled.run(data).num_rows == pc.sum(per_key.to_arrow_table()["n"]).as_py()
    assert (
        query.run(data, where="k = 'user 7'").num_rows
        == pc.sum(pc.fill_null(pc.equal(query.run(data)["k"], "user 7"), False)).as_py()
    )
    # Slices of all rows at once are put together as one.
    operator = query.operator(order="out-of-order", schema=data.schema)
    operator.push_slices(query.slices(data))
    closed = operator.close().drop_columns("update")
    assert rows_of(closed).equals(rows_of(query.run(data)))


@pytest.mark.parametrize("kind", ["int64", "far", "text", "two"])
def test_frames_are_those_of_duckdb(kind: str) -> None:
    data = table(kind).append_column("n", pa.array(np.arange(ROWS + 5)))
    by = [name for name in data.column_names if name not in ("t", "v", "n")]
    last = wk.sum("v").over(100).alias("s")
    found = wk.rolling(by=by, time="t", aggs=last).run(data, threads=2)
    assert found.select(data.column_names).equals(data)
    timed, labels = data.filter(pc.is_valid(data["t"])), data.slice(0, 20_000).drop_columns("v")
    connection = duckdb.connect().register("timed", timed).register("labels", labels)
    frame = f"partition by {', '.join(by)} order by t range between 100 preceding and current row"
    wanted = connection.query(f"select n, sum(v) over ({frame})::bigint as s from timed")
    found = found.filter(pc.is_valid(found["t"]))
    assert rows_of(found.select(["n", "s"])).equals(rows_of(wanted.to_arrow_table()))
    # Few labels are not spread where events are, nor few events where labels are.
    equal = " and ".join(f"labels.{key} is not distinct from timed.{key}" for key in by)
    in_frame = "timed.t between labels.t - 100 and labels.t"
    wanted = connection.query(
        f"select labels.n, sum(v)::bigint as s from labels left join timed on {equal} and {in_frame} "
        "group by labels.n"
    )
    frames = wk.rolling(by=by, time="t", aggs=last)
    assert rows_of(frames.at(labels, data, threads=2).select(["n", "s"])).equals(
        rows_of(wanted.to_arrow_table())
    )
    events = data.slice(0, 20_000)
    connection.register("events", events)
    equal, in_frame = (
        each.replace("timed", "events").replace("labels", "timed") for each in (equal, in_frame)
    )
    wanted = connection.query(
        f"select timed.n, sum(events.v)::bigint as s from timed left join events on {equal} and {in_frame} "
        "group by timed.n"
    )
    labels = timed.drop_columns("v")
    assert rows_of(frames.at(labels, events, threads=2).select(["n", "s"])).equals(
        rows_of(wanted.to_arrow_table())
    )


@pytest.mark.parametrize("kind", ["int64", "far", "text", "two"])
def test_joins_are_those_of_duckdb(kind: str) -> None:
    left = table(kind).append_column("n", pa.array(np.arange(ROWS + 5)))
    by = [name for name in left.column_names if name not in ("t", "v", "n")]
    right = (
        left.rename_columns({"n": "m", "t": "u"})
        .drop_columns("v")
        .take(pc.indices_nonzero(pa.array(np.random.default_rng(2).random(ROWS + 5) < 0.5)))
    )
    found = wk.join(
        by=by, left_time="t", right_time="u", within=(20, 10), how="full", right_columns=["u", "m"]
    ).run(left, right, threads=2)
    connection = duckdb.connect().register("l", left).register("r", right)
    equal = " and ".join(f"l.{key} = r.{key}" for key in by)
    wanted = connection.query(f"select n, m from l full join r on {equal} and u >= t - 20 and u <= t + 10")
    assert rows_of(found.select(["n", "m"])).equals(rows_of(wanted.to_arrow_table()))
    # Pairs come in the order of the left rows, then of the right rows' times.
    pairs = found.filter(pc.is_valid(found["n"]))
    assert pairs.select(["n", "u", "m"]).equals(
        pairs.select(["n", "u", "m"]).sort_by([("n", "ascending"), ("u", "ascending"), ("m", "ascending")])
    )


@pytest.mark.parametrize("kind", ["int64", "far", "text", "two"])
def test_duplicates_are_those_of_duckdb(kind: str) -> None:
    data = table(kind).append_column("n", pa.array(np.arange(ROWS + 5)))
    by = [name for name in data.column_names if name not in ("t", "v", "n")]
    found = wk.distinct(by, time="t", within=200).run(data, threads=2)
    wanted = duckdb.from_arrow(data).query(
        "data",
        f"select n from data qualify t is null or coalesce(t - lag(t) over (partition by {', '.join(by)}, "
        "t is null order by t, n) > 200, true) order by n",
    )
    assert found["n"].to_pylist() == wanted.to_arrow_table()["n"].to_pylist()
