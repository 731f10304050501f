"""`where=` over streaming DataFrames: the results of a stream that are filtered, of fewer rows."""

from __future__ import annotations

import pytest

import windowkit as wk
from support.spark_runs import everything, mixed, run_stream

pytestmark = pytest.mark.usefixtures("rocksdb")

WINDOWS = wk.sliding("1 minute", "20 seconds")
QUERY = wk.query(by="k", time="ts", windows=WINDOWS, aggs=[wk.count().alias("n"), wk.sum("v")])


def rows_in(query):
    return sum(progress.observedMetrics["counted, in"]["rows in"] for progress in query.recentProgress)


@pytest.mark.parametrize(
    "where", ["k = 'a' and n > 2", "n > 3", "true", "window_start >= '1970-01-01 01:00:20' and k <> 'a'"]
)
def test_results_are_those_of_a_stream_that_are_filtered(source, tmp_path, where):
    """Rows that are left out move the watermark, too, or windows would be final later."""
    frame = source(*mixed(3))
    found, ours = run_stream(QUERY.run(frame, where=where, metrics_name="counted"), tmp_path / "ours")
    every, other = run_stream(QUERY.run(frame, metrics_name="counted").where(where), tmp_path / "every")
    assert {number: rows for number, rows in found.items() if rows}.keys() == {
        number for number, rows in every.items() if rows
    }
    assert everything(found) == everything(every) != []
    assert (rows_in(ours) < rows_in(other)) is ("k" in where)
    assert f"where {where}" in QUERY.explain(frame, where=where)


def test_false_leaves_nothing(source, tmp_path):
    found, _ = run_stream(QUERY.run(source(*mixed(3)), where="false"), tmp_path / "ours")
    assert everything(found) == []


def test_retractions_are_filtered_as_what_they_withdraw(source, tmp_path):
    query = wk.query(
        by="k", time="ts", windows=WINDOWS, aggs=wk.count().alias("n"), emit=wk.emit(wk.rows(1), "retracting")
    )
    frame, where = source(*mixed(3)), "k in ('a', 'b') and n > 2"
    found, _ = run_stream(query.run(frame, where=where), tmp_path / "ours")
    every, _ = run_stream(query.run(frame).where(where), tmp_path / "every")
    assert everything(found) == everything(every) != []
    # What was withdrawn, and what was not, is there as often as it was returned.
    weights = [row[query.run(frame).columns.index("weight")] for rows in found.values() for row in rows]
    assert {1, -1} == set(weights)


@pytest.mark.parametrize("route", ["catalyst", "operator"])
def test_rows_of_all_keys_move_the_watermark(source, tmp_path, route):
    """Rows of a key that are late by those of another, whether Spark or windowkit filters results."""
    query = wk.query(by="k", time="ts", windows=wk.tumbling("1 minute"), aggs=wk.count().alias("n"))
    frame = source([("b", 1000.0, 1.0)], [("a", 500.0, 1.0)], [("a", 505.0, 1.0)], [("b", 3000.0, 1.0)], [])
    for number, where in enumerate(("k = 'a'", "k = 'b' and n > 0")):
        found, _ = run_stream(query.run(frame, where=where, route=route), tmp_path / f"ours{number}")
        every, _ = run_stream(query.run(frame, route=route).where(where), tmp_path / f"every{number}")
        assert found == every
        assert [row[-1] for rows in found.values() for row in rows] == [1]


def test_a_key_may_have_a_watermark(source, tmp_path):
    """Spark's own aggregation refuses two columns of event times."""
    query = wk.query(by=["k", "ts"], time="ts", windows=wk.tumbling("1 minute"), aggs=wk.count())
    frame = source([("a", 10.0, 1.0), ("a", 10.0, 2.0)], [("b", 3000.0, 1.0)], [])
    assert "the key ts has one, too" in query.explain(frame)
    found, _ = run_stream(query.run(frame), tmp_path / "found")
    assert [row[::4] for rows in found.values() for row in rows] == [("a", 2)]


def test_sparks_own_aggregation(source, tmp_path):
    query = wk.query(by="k", time="ts", windows=wk.tumbling("30 seconds"), aggs=wk.count().alias("n"))
    frame, where = source(*mixed(3)), "k = 'a' and n > 1"
    found, _ = run_stream(query.run(frame, where=where, route="catalyst"), tmp_path / "ours")
    every, _ = run_stream(query.run(frame, route="catalyst").where(where), tmp_path / "every")
    assert everything(found) == everything(every) != []
    assert "of rows, before anything else: k = 'a'" in query.explain(frame, where=where, route="catalyst")


REPLACED = "n > 1 may hold of a window's first result and not of the next, which would be missed, as "


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"where": "k = 'a' and n > 1", "output_mode": "update"}, f"{REPLACED}output_mode"),
        ({"where": "n > 1", "allowed_lateness": "1 minute"}, f"{REPLACED}late rows change windows"),
        (
            {"where": "n > 1", "output_mode": "update", "route": "catalyst"},
            f"{REPLACED}output_mode is 'update'",
        ),
        ({"where": "k = 'a'", "late_rows": True}, "where: .* is given with late_rows=True"),
    ],
)
def test_what_a_later_result_may_replace_is_refused(source, options, match):
    query = wk.query(by="k", time="ts", windows=wk.tumbling("30 seconds"), aggs=wk.count().alias("n"))
    with pytest.raises(wk.InvalidValue, match=match):
        query.run(source(*mixed(1)), **options)


def test_keys_and_fixed_times_are_never_replaced(source, tmp_path):
    frame, where = source(*mixed(3)), "k = 'a' and window_start > '1970-01-01'"
    found, _ = run_stream(QUERY.run(frame, where=where, output_mode="update"), tmp_path / "ours", "update")
    every, _ = run_stream(QUERY.run(frame, output_mode="update").where(where), tmp_path / "every", "update")
    assert everything(found) == everything(every) != []
    sessions = wk.query(by="k", time="ts", windows=wk.session("5 seconds"), aggs=wk.count().alias("n"))
    with pytest.raises(wk.InvalidValue, match=r"window_end < '1970-01-02' may hold"):
        sessions.run(frame, where="window_end < '1970-01-02'", output_mode="update")


def test_a_checkpoint_belongs_to_the_keys_it_has(source, tmp_path):
    frame = source(*mixed(2))
    run_stream(QUERY.run(frame, where="k = 'a' and n > 1"), tmp_path / "state")
    # What is said of windows alone may change.
    run_stream(QUERY.run(source(*mixed(2)[:1]), where="k = 'a'"), tmp_path / "state")
    with pytest.raises(Exception, match="its state has rows"):
        run_stream(QUERY.run(source(*mixed(2)[:1]), where="k = 'b'"), tmp_path / "state")
