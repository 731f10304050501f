"""How complete windows are by now, against the shares of their rows that had come."""

from __future__ import annotations

import math
import random
import re
from typing import Any

import pyarrow as pa
import pytest

import windowkit as wk

SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64(), "s": pa.string()})


def counting(windows: Any = None, **policy: Any) -> wk.Query:
    return wk.query(
        by="k",
        time="t",
        windows=windows or wk.tumbling(2000),
        aggs=wk.count().alias("n"),
        emit=wk.emit(wk.rows(1), complete=True, **policy),
    )


def rows(times: list[int], source: str = "a") -> pa.Table:
    return pa.table({"k": ["x"] * len(times), "t": times, "s": [source] * len(times)}, schema=SCHEMA)


def following(share: float = 0.99, **options: Any) -> dict[str, Any]:
    return {"order": "out-of-order", "progress": wk.delay(share=share, **options), "schema": SCHEMA}


def delayed(how: str, chance: random.Random) -> int:
    match how:
        case "none":
            return 0
        case "some":
            return chance.randint(0, 300) if chance.random() < 0.3 else 0
        case "all":
            return int(chance.expovariate(1 / 200))
    return 0 if chance.random() < 0.9 else 1500


@pytest.mark.parametrize("how", ["none", "some", "all", "few, long"])
def test_the_share_of_rows_that_have_come_is_within_the_error(how: str) -> None:
    """Of windows with 2,000 rows, one a unit of time, at any moment of the stream."""
    chance = random.Random(how)
    arrivals = sorted((time + delayed(how, chance), time) for time in range(20_000))
    op, checked = counting().operator(**following()), 0
    # At the very end, rows that are late come without any that are later, by which delays are measured.
    for at in range(0, 18_000, 1000):
        result = op.push(rows([time for _, time in arrivals[at : at + 1000]])).to_pylist()
        for row in (row for row in result if row["emission"] == "early"):
            # What comes of such windows is itself a sample.
            slack = row["complete_error"] + 2 * math.sqrt(0.25 / 2000)
            assert abs(row["n"] / 2000 - row["complete"]) <= slack, row
            checked += 1
    assert checked >= 15
    assert row["complete_error"] < 0.03
    known = op.completeness(row["window_start"], row["window_end"])
    assert known is not None
    assert (known.share, known.error) == (row["complete"], row["complete_error"])


def test_sources_count_by_their_rows() -> None:
    op = counting().operator(**following(source="s"))
    assert op.completeness(0, 100) is None
    op.push(pa.concat_tables([rows(list(range(100)), "a"), rows([*range(50)] * 2, "b")]))
    known = op.completeness(0, 100)
    assert known is not None
    # All of a's rows, and about half of b's: of its hundred rows, the second fifty were late.
    assert known.share == pytest.approx((1 + 0.5 * (0.5 + 0.25)) / 2, abs=0.02)


def test_results_that_are_taken_back_say_nothing_and_other_queries_neither() -> None:
    query = counting(refinement="retracting")
    plain = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("t").alias("sum"))
    op = query.operator(**following())
    op.add(plain, name="plain")
    op.push(rows([1]))
    result = op.push(rows([2, 15]))
    assert result.schema == op.schema
    assert result.column_names[-4:] == ["emission", "weight", "complete", "complete_error"]
    by_label = {(row["query_name"], row["emission"]): row["complete"] for row in result.to_pylist()}
    assert by_label["q1", "retraction"] is None
    assert 0 < by_label["q1", "early"] <= 1
    assert op.peek().filter(pa.compute.equal(op.peek()["query_name"], "plain"))["complete"].null_count > 0
    op.remove("q1")
    assert op.push(rows([30])).column_names[-2:] == ["emission", "weight"]


@pytest.mark.parametrize(
    "windows",
    [wk.session(5), wk.tumbling(rows=2), wk.landmark(10, period=100), wk.global_window(), wk.band(0, 50)],
    ids=str,
)
def test_any_window_can_be_told_to_be_complete(windows: Any) -> None:
    op = counting(windows).operator(**following(share=0.5))
    told = [row["complete"] for at in range(0, 60, 3) for row in op.push(rows([at, at + 1])).to_pylist()]
    told += op.close()["complete"].to_pylist()
    assert told
    assert all(0 <= share <= 1 for share in told)


def test_times_are_those_of_the_column() -> None:
    for kind in (pa.date32(), pa.timestamp("s", "Europe/Berlin"), pa.duration("ms")):
        schema = pa.schema({"k": pa.string(), "t": kind})
        one = pa.scalar(86_400, pa.int64())
        length = "1 day" if not pa.types.is_duration(kind) else "1 second"
        query = counting(wk.tumbling(length))
        op = query.operator(order="out-of-order", progress=wk.delay(share=0.5), schema=schema)
        values = pa.array([0, 1, 2], pa.int32()).cast(kind) if kind == pa.date32() else None
        if values is None:
            values = pa.array([0, one.as_py() // 2, one.as_py()], pa.int64()).cast(kind)
        result = op.push(pa.table({"k": ["x"] * 3, "t": values}))
        assert result["complete"].null_count == 0
        start, end = values[0], values[2]
        known = op.completeness(start, end)
        assert known is not None
        assert known.share > 0.5


def test_a_snapshot_and_the_last_result_know_as_much() -> None:
    query = counting()
    op = query.operator(**following())
    first = op.push(rows(list(range(100))))
    assert op.last().equals(first)
    again = wk.Operator.restore(op.snapshot(), query)
    assert again.completeness(0, 200) == op.completeness(0, 200)
    more = rows(list(range(100, 150)))
    assert again.push(more).equals(op.push(more))
    again.add(counting(wk.tumbling(10)), name="more")
    assert again.push(rows([151]))["complete"].null_count == 0


def test_it_is_refused_where_nothing_measures_how_late_rows_are() -> None:
    query = counting()
    wanted = (
        "emit: emit(rows(1), complete=True) is given, but nothing measures how late rows are; it requires"
    )
    for progress in (None, wk.delay(5), wk.delay(rows=100)):
        with pytest.raises(wk.InvalidValue, match=re.escape(wanted)):
            query.operator(order="out-of-order", progress=progress)
    op = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count()).operator(schema=SCHEMA)
    with pytest.raises(wk.InvalidValue, match=re.escape(wanted)):
        op.add(query)
    with pytest.raises(wk.InvalidValue, match="progress"):
        op.completeness(0, 10)
    by_time = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count())
    measured = by_time.operator(order="out-of-order", progress=wk.delay(5), schema=SCHEMA)
    with pytest.raises(wk.InvalidValue, match="complete: how late rows are is not measured"):
        measured.completeness(0, 10)
    with pytest.raises(wk.InvalidValue, match="end: 5 is before start=10"):
        query.operator(**following()).completeness(10, 5)
    with pytest.raises(wk.InvalidType, match=r"start: 1\.5 is a float"):
        query.operator(**following()).completeness(1.5, 3)
    with pytest.raises(wk.InvalidType, match="complete"):
        wk.emit(complete="yes")  # type: ignore[arg-type]
    named = wk.count().alias("complete")
    with pytest.raises(wk.InvalidValue, match="two columns 'complete'"):
        wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=named, emit=wk.emit(complete=True))


def test_a_policy_that_asks_is_written_and_read() -> None:
    query = counting()
    assert repr(query.emit) == "emit(rows(1), complete=True)"
    assert wk.Query.from_dict(query.to_dict()) == query
    assert wk.emit(wk.rows(1)) != query.emit
