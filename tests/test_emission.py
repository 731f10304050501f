"""Emission policies by worked examples: each trigger, each combination, each refinement, each refusal."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

import windowkit as wk
from support.streams import Threshold

QUERY = wk.query(
    by="k", time="t", windows=wk.tumbling(100), aggs=[wk.count().alias("n"), wk.sum("v").alias("s")]
)
SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64(), "v": pa.int64(), "b": pa.bool_()})


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def rows(*times: int, k: str = "a", b: list[Any] | None = None) -> pa.Table:
    count = len(times)
    return pa.table([[k] * count, times, [1] * count, b or [None] * count], schema=SCHEMA)


def operator(policy: wk.Emission | None, order: str = "out-of-order", **options: Any) -> wk.Operator:
    return QUERY.operator(order=order, schema=SCHEMA, emit=policy, **options)


def shown(result: pa.Table, *names: str) -> list[Any]:
    """Return key, count and emission of each row, or other columns."""
    return [tuple(row[name] for name in names or ("k", "n", "emission")) for row in result.to_pylist()]


def early(op: wk.Operator, *batches: pa.Table) -> list[list[Any]]:
    """Return keys and counts that are emitted early after each batch."""
    results = [shown(op.push(batch)) for batch in batches]
    return [[each[:2] for each in result if each[2] == "early"] for result in results]


def test_rows() -> None:
    op = operator(wk.emit(wk.rows(3)))
    assert early(op, rows(1, 2), rows(3, k="b"), rows(4), rows(5, 6), rows(7, 8, 9, 10)) == [
        [],
        [],
        [("a", 3)],
        [],
        [("a", 9)],
    ]
    # A key fires at most once a call, and rows that are late or have no time do not count.
    assert shown(op.advance(100)) == [("a", 9, "final"), ("b", 1, "final")]
    assert early(op, rows(1, 2, 101, 102)) == [[]]
    assert early(op, rows(103)) == [[("a", 3)]]


def test_on_a_mark() -> None:
    op = operator(wk.emit(wk.on("b")))
    emitted = early(op, rows(1), rows(2, b=[False]), rows(3, b=[True]), rows(4), rows(5, k="b", b=[True]))
    assert emitted == [[], [], [("a", 3)], [], [("b", 1)]]
    op.advance(100)
    assert early(op, rows(5, b=[True]), rows(101), rows(102, 3, b=[None, True])) == [[], [], []]


def test_every_of_event_time() -> None:
    op = operator(wk.emit(wk.every(10)), order="in-order")
    # The first call knows no watermark before it; several boundaries are passed at once.
    assert early(op, rows(15), rows(19), rows(20), rows(25), rows(61)) == [
        [],
        [],
        [("a", 3)],
        [],
        [("a", 5)],
    ]
    out_of_order = operator(wk.emit(wk.every(10)))
    assert early(out_of_order, rows(15), rows(35, k="b")) == [[], []]
    assert shown(out_of_order.advance(-3)) == []
    assert shown(out_of_order.advance(-1)) == []
    assert shown(out_of_order.advance(0)) == [("a", 1, "early"), ("b", 1, "early")]
    assert shown(out_of_order.advance(10)) == []
    assert early(out_of_order, rows(16)) == [[]]
    assert shown(out_of_order.advance(19)) == []
    assert shown(out_of_order.advance(20)) == [("a", 2, "early")]


def test_every_of_a_duration() -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling("1 minute"), aggs=wk.count().alias("n"))
    op = query.operator(emit=wk.emit(wk.every("10 seconds")))
    emitted = []
    for second in (1, 9, 10, 21):
        result = op.push(pa.table({"t": pa.array([second], pa.timestamp("s"))}))
        emitted.append(result["n"].to_pylist())
    assert emitted == [[], [], [3], [4]]


def test_every_of_processing_time() -> None:
    clock = Clock()
    op = operator(wk.emit(wk.every("1 millisecond", of="processing time")), clock=clock)
    assert early(op, rows(1)) == [[]]
    clock.now = 999
    assert early(op, rows(2)) == [[]]
    clock.now = 1000
    assert shown(op.advance(0)) == [("a", 2, "early")]
    clock.now = 5500
    assert early(op, rows(3, k="b")) == [[("b", 1)]]
    again = wk.Operator.restore(op.snapshot(), op.queries, clock=clock)
    assert early(again, rows(4, k="b")) == [[]]
    clock.now = 6000
    assert early(again, rows()) == [[("b", 2)]]
    # Without rows, and without a watermark that follows them, a call is enough.
    again.push(rows(5))
    clock.now = 6999
    assert shown(again.advance()) == []
    clock.now = 7000
    assert shown(again.advance()) == [("a", 3, "early")]
    assert again.watermark.as_py() == 0


def test_at_a_share() -> None:
    op = operator(wk.emit(wk.at(0.5) | wk.at(0.25)))
    assert early(op, rows(1, 49, k="b"), rows(99)) == [[], []]
    assert shown(op.advance(24)) == []
    assert sorted(shown(op.advance(25))) == [("a", 1, "early"), ("b", 2, "early")]
    assert shown(op.advance(49)) == []
    assert sorted(shown(op.advance(50))) == [("a", 1, "early"), ("b", 2, "early")]
    assert shown(op.advance(99)) == []
    # It is final by this call, and the next one has no rows yet.
    assert [each[2] for each in shown(op.advance(160))] == ["final", "final"]
    assert early(op, rows(170)) == [[]]


def test_a_share_is_passed_by_a_key_that_is_ahead() -> None:
    op = operator(wk.emit(wk.at(0.5)))
    assert early(op, rows(1), rows(2, k="b")) == [[], []]
    assert shown(op.advance(49, key="a")) == []
    assert shown(op.advance(60, key="a")) == [("a", 1, "early")]
    assert shown(op.advance(70, key="a")) == []
    # By then the other has passed it, too, and the first has long done so.
    assert shown(op.advance(60)) == [("b", 1, "early")]


def test_a_share_is_the_decimal_that_was_written() -> None:
    op = operator(wk.emit(wk.at(0.07)))
    op.push(rows(1))
    assert shown(op.advance(6)) == []
    # In floats, 0.07 * 100 is greater than 7.
    assert shown(op.advance(7)) == [("a", 1, "early")]
    thirds = operator(wk.emit(wk.at(1 / 3)))
    thirds.push(rows(1))
    assert shown(thirds.advance(33)) == []
    assert shown(thirds.advance(34)) == [("a", 1, "early")]


def test_at_goes_from_no_watermark_and_comes_once_with_its_key() -> None:
    op = operator(wk.emit(wk.at(0.5) | wk.rows(2)), order="in-order")
    assert early(op, rows(30, 60), rows(70), rows(80)) == [[("a", 2)], [], [("a", 4)]]


def test_either() -> None:
    op = operator(wk.emit(wk.rows(3) | wk.on("b")))
    assert early(op, rows(1), rows(2, b=[True]), rows(3, 4), rows(5)) == [[], [("a", 2)], [], [("a", 5)]]


def test_both_remember() -> None:
    op = operator(wk.emit(wk.rows(3) & wk.on("b")))
    emitted = early(op, rows(1, b=[True]), rows(2), rows(3), rows(4, 5, 6), rows(7, b=[True]))
    assert emitted == [[], [], [("a", 3)], [], [("a", 7)]]


def test_time_that_passes_is_remembered_for_keys_with_new_rows_only() -> None:
    op = operator(wk.emit(wk.rows(2) & wk.every(10)), order="in-order")
    emitted = early(op, rows(1), rows(11), rows(25, k="b"), rows(26, 27), rows(31), rows(32, k="b"))
    assert emitted == [[], [("a", 2)], [], [], [("a", 5)], [("b", 2)]]


def test_a_firing_by_hand_does_not_look_at_the_time() -> None:
    clock = Clock()
    op = operator(wk.emit(wk.every("1 millisecond", of="processing time")), clock=clock)
    op.push(rows(1))
    clock.now = 1500
    assert shown(op.fire()) == [("a", 1, "early")]
    # The boundary lies between this call and the push before it.
    assert early(op, rows(2), rows(3)) == [[("a", 2)], []]


def test_one_after_the_other() -> None:
    op = operator(wk.emit(wk.rows(1).then(wk.rows(2)).then(wk.rows(3))))
    counts = [result[0][1] if result else None for result in early(op, *(rows(t) for t in range(9)))]
    assert counts == [1, None, 3, None, None, 6, None, None, 9]
    # A final window of the key begins the chain anew; that of another key does not.
    op.push(rows(101, k="b"))
    assert [each[0] for each in shown(op.advance(100))] == ["a"]
    assert early(op, rows(102), rows(103), rows(104, k="b"), rows(105, k="b")) == [
        [("a", 1)],
        [],
        [],
        [("b", 3)],
    ]


def test_again_and_again() -> None:
    op = operator(wk.emit(wk.rows(1).then(wk.rows(2)).repeat()))
    assert [bool(result) for result in early(op, *(rows(t) for t in range(6)))] == [
        True,
        False,
        True,
        True,
        False,
        True,
    ]


def test_by_hand() -> None:
    op = operator(wk.emit(wk.rows(2).then(wk.rows(3)), "retracting"))
    op.push(rows(1))
    op.push(rows(2, k="b"))
    assert shown(op.fire("c")) == []
    assert shown(op.fire("a"), "k", "n", "emission", "weight") == [("a", 1, "early", 1)]
    assert shown(op.fire()) == [("b", 1, "early")]
    assert shown(op.fire()) == []
    # The stage did not hold, so it is still the first.
    assert early(op, rows(3), rows(4), rows(5, 6), rows(7)) == [[], [("a", 3)], [], [("a", 6)]]
    assert op.close().num_rows == 4
    with pytest.raises(wk.InvalidValue, match="closed"):
        op.fire()


def test_what_a_firing_says() -> None:
    """Only windows with new rows, and of them all that are open."""
    query = wk.query(by=[], time="t", windows=wk.sliding(20, 10), aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order", emit=wk.emit(wk.rows(2)))

    def starts(*times: int) -> list[int]:
        result = op.push(pa.table({"t": list(times)})).to_pylist()
        return sorted(row["window_start"] for row in result)

    assert starts(5, 25) == [-10, 0, 10, 20]
    assert starts(26, 45) == [10, 20, 30, 40]
    op.advance(30)
    assert starts(31, 32) == [20, 30]


def test_accumulating() -> None:
    op = operator(wk.emit(wk.rows(2)), allowed_lateness=50)
    assert shown(op.push(rows(1, 2))) == [("a", 2, "early")]
    assert shown(op.push(rows(3, 4))) == [("a", 4, "early")]
    assert shown(op.advance(100), "n", "emission", "update") == [(4, "final", False)]
    assert shown(op.push(rows(5)), "n", "emission", "update") == [(5, "late", True)]
    assert op.schema.names[-2:] == ["update", "emission"]
    assert op.schema.field("emission").type == pa.string()


def test_retracting() -> None:
    op = operator(wk.emit(wk.rows(2), "retracting"), allowed_lateness=50)
    seen = [op.push(rows(1, 2)), op.push(rows(3, 4)), op.advance(100), op.push(rows(5)), op.close()]
    assert [shown(each, "n", "emission", "update", "weight") for each in seen] == [
        [(2, "early", False, 1)],
        [(2, "retraction", False, -1), (4, "early", False, 1)],
        [(4, "retraction", False, -1), (4, "final", False, 1)],
        [(4, "retraction", False, -1), (5, "late", True, 1)],
        [],
    ]
    assert op.schema.names[-3:] == ["update", "emission", "weight"]
    assert op.schema.field("weight").type == pa.int8()


def test_a_punctuation_is_a_call_like_others() -> None:
    query = wk.query(
        by="k", time="t", windows=[wk.tumbling(100), wk.punctuation("b")], aggs=wk.count().alias("n")
    )
    op = query.operator(schema=SCHEMA, emit=wk.emit(wk.every(10)))
    assert shown(op.push(rows(1))) == []
    assert shown(op.punctuate(12), "window_name", "n", "emission") == [
        ("punctuation(b)", 1, "final"),
        ("tumbling(100)", 1, "early"),
    ]


def test_a_window_that_is_withdrawn_is_taken_back() -> None:
    """A late row with a long gap makes one session of two; the other is only taken back."""
    query = wk.query(by=[], time="t", windows=wk.session(column="gap"), aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order", allowed_lateness=100, emit=wk.emit(None, "retracting"))
    op.push(pa.table({"t": [0, 10], "gap": [2, 2]}))
    assert shown(op.advance(30), "n", "emission", "weight") == [(1, "final", 1), (1, "final", 1)]
    changed = op.push(pa.table({"t": [1], "gap": [20]}))
    assert None not in changed["window_start"].to_pylist()
    emitted = Counter(shown(changed, "n", "emission", "weight"))
    assert emitted == {(1, "retraction", -1): 2, (3, "late", 1): 1}


@pytest.mark.parametrize("late", [[], [(216, -4)], [(216, 0)], [(217, -1), (219, 1)]])
def test_a_users_final_window_that_rows_ahead_would_end_elsewhere(late: list[tuple[int, int]]) -> None:
    """It stands until the watermark gets there, whatever late rows make of it: at the end, all adds up."""
    query = wk.query(by=[], time="t", windows=wk.custom(Threshold()), aggs=wk.count().alias("n"))
    schema = pa.schema({"t": pa.int64(), "i": pa.int64()})
    op = query.operator(
        order="out-of-order",
        allowed_lateness=100,
        progress=wk.delay(7),
        schema=schema,
        emit=wk.emit(wk.rows(1), "retracting"),
    )
    names, standing = ("window_start", "window_end", "n"), Counter[tuple[Any, ...]]()
    calls = [[(218, 3), (224, -2), (195, 1), (215, 3)], late]
    columns = [list(zip(*rows, strict=True)) or [[], []] for rows in calls]
    rows = [pa.table(list(map(list, each)), schema=schema) for each in columns]
    for result in [*map(op.push, rows), op.close()]:
        for *window, weight in shown(result, *names, "weight"):
            standing[tuple(window)] += weight
            assert standing[tuple(window)] >= 0
    wanted = query.run(pa.concat_tables(rows))
    assert +standing == Counter(shown(wanted, *names))


def test_what_is_equal_is_not_said_again() -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling(100), aggs=wk.max("t").alias("x"))
    op = query.operator(order="out-of-order", emit=wk.emit(wk.rows(1), "retracting"))
    emitted = [op.push(pa.table({"t": [t]})).num_rows for t in (9, 3, 5, 12, 12)]
    assert emitted == [1, 0, 0, 2, 0]
    assert shown(op.close(), "x", "weight") == [(12, -1), (12, 1)]


def test_sessions_take_back_all_that_they_cover() -> None:
    query = wk.query(by=[], time="t", windows=wk.session(10), aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order", allowed_lateness=100, emit=wk.emit(wk.rows(1), "retracting"))
    op.push(pa.table({"t": [0, 18]}))
    op.advance(15)
    merged = op.push(pa.table({"t": [9]})).to_pylist()
    assert sorted((row["window_start"], row["n"], row["weight"]) for row in merged) == [
        (0, 1, -1),
        (0, 3, 1),
        (18, 1, -1),
    ]
    assert [row["emission"] for row in merged] == ["retraction", "retraction", "early"]


def test_a_session_takes_back_one_that_had_expired() -> None:
    """A row may join a session that no late row could have changed: it would be accepted by itself."""
    query = wk.query(by=[], time="t", windows=wk.session(10), aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order", emit=wk.emit(wk.rows(1), "retracting"))
    op.push(pa.table({"t": [0]}))
    op.advance(11)
    extended = op.push(pa.table({"t": [5]}))
    assert shown(extended, "n", "emission", "weight") == [(1, "retraction", -1), (2, "early", 1)]


def test_the_global_window_is_one_window() -> None:
    query = wk.query(by=[], time="t", windows=wk.global_window(), aggs=wk.count().alias("n"))
    op = query.operator(emit=wk.emit(wk.rows(1), "retracting"))
    assert shown(op.push(pa.table({"t": [0]})), "n", "weight") == [(1, 1)]
    assert shown(op.push(pa.table({"t": [5]})), "n", "weight") == [(1, -1), (2, 1)]
    assert shown(op.close(), "n", "weight") == [(2, -1), (2, 1)]


def test_discarding() -> None:
    op = operator(wk.emit(wk.rows(2), "discarding"))
    seen = [op.push(rows(1, 2)), op.push(rows(3, 4)), op.push(rows(5, 101)), op.advance(100)]
    assert [shown(each, "s", "emission") for each in seen] == [
        [(2, "early")],
        [(2, "early")],
        [(1, "early"), (1, "early")],
        [],
    ]
    assert shown(op.push(rows(102))) == []
    assert shown(op.close(), "s", "emission") == [(1, "final")]


def test_beside_a_query_without_a_policy() -> None:
    op = operator(wk.emit(wk.rows(1), "retracting"), name="early")
    other = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
    op.add(other, name="plain")
    assert shown(op.push(rows(1)), "query_name", "n", "emission") == [("early", 1, "early")]
    assert shown(op.advance(10), "query_name", "n", "emission", "weight") == [("plain", 1, "final", 1)]
    # The columns stay once a policy was there.
    op.remove("early")
    assert op.schema.names[-2:] == ["emission", "weight"]
    with pytest.raises(wk.InvalidValue, match=r"fire: .*emission policy"):
        op.fire()


def test_the_operators_policy_replaces_the_querys() -> None:
    query = wk.query(
        by=[], time="t", windows=wk.tumbling(10), aggs=wk.count(), emit=wk.emit(wk.rows(5), "retracting")
    )
    op = query.operator(emit=wk.emit(wk.rows(1)))
    assert op.queries["q1"].emit == wk.emit(wk.rows(1))
    assert query.operator().queries["q1"].emit == query.emit
    added = op.add(query, emit=wk.emit(wk.on("b")))
    assert op.queries[added].emit == wk.emit(wk.on("b"))
    assert "q1: tumbling(10); count(*); emit(rows(1))" in op.explain()
    op.remove(op.queries[added])
    assert list(op.queries) == ["q1"]


def test_a_batch_has_one_answer() -> None:
    table = rows(1, 2, 101)
    emitting = wk.query(
        by="k", time="t", windows=wk.tumbling(100), aggs=wk.count(), emit=wk.emit(wk.on("nowhere"))
    )
    plain = wk.query(by="k", time="t", windows=wk.tumbling(100), aggs=wk.count())
    assert emitting.run(table).equals(plain.run(table))
    assert emitting.schema(table) == plain.schema(table)
    assert pa.Table.from_batches(emitting.batches(table)).equals(plain.run(table))
    assert emitting.inputs == plain.inputs


def test_a_peek_says_nothing() -> None:
    op = operator(wk.emit(wk.rows(2), "retracting"))
    op.push(rows(1))
    assert shown(op.peek(), "n", "emission", "weight") == [(1, "early", 1)]
    assert shown(op.push(rows(2)), "n", "weight") == [(2, 1)]


def test_a_call_that_raises_changes_nothing() -> None:
    op = operator(wk.emit(wk.rows(2), "retracting"))
    op.push(rows(1))
    largest = pa.table([["a", "a"], [2, 3], [2**63 - 1, 1], [None, None]], schema=SCHEMA)
    with pytest.raises(wk.Overflow):
        op.push(largest)
    assert shown(op.push(rows(5)), "n", "weight") == [(2, 1)]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: operator(wk.emit(wk.on("nowhere"))), wk.UnknownColumn, "on: "),
        (lambda: operator(wk.emit(wk.on("v"))), wk.InvalidType, "on: column 'v' is int64"),
        (
            lambda: operator(wk.emit(wk.every("5 seconds"))),
            wk.InvalidType,
            "emit: emit(every('5 seconds')) is given for",
        ),
        (
            lambda: operator(wk.emit(refinement="discarding"), allowed_lateness=5),
            wk.InvalidValue,
            "refinement: it is 'discarding'",
        ),
        (lambda: operator(None).fire(), wk.InvalidValue, "fire: no query of this operator has an emission"),
        (lambda: operator(wk.emit()).fire(["a", "b"]), wk.InvalidType, "key: ['a', 'b'] is not a value"),
        (lambda: QUERY.operator(emit=wk.emit()).fire(), wk.InvalidValue, "fire: the schema of the stream"),
        (
            lambda: operator(wk.emit(wk.every(5)), clock=Clock()),
            wk.InvalidValue,
            "clock: it is given for a query over a column of times; it requires one over",
        ),
        (
            lambda: wk.query(
                by=[], time="t", windows=wk.tumbling(1), aggs=wk.count().alias("emission")
            ).operator(schema=SCHEMA, emit=wk.emit()),
            wk.InvalidValue,
            "emit: results would have two columns 'emission'",
        ),
    ],
)
def test_what_does_not_fit_the_stream_is_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        make()


def test_an_integer_for_a_column_of_timestamps_is_refused() -> None:
    # The windows have no lengths, which would say so before there is a schema.
    query = wk.query(by=[], time="t", windows=wk.global_window(), aggs=wk.count())
    schema = pa.schema({"t": pa.timestamp("ms")})
    with pytest.raises(wk.InvalidType, match=r"^every: it is an integer, but column 't' counts"):
        query.operator(schema=schema, emit=wk.emit(wk.every(5)))
    with pytest.raises(wk.InvalidValue, match=r"^every: it is finer than column 't'"):
        query.operator(schema=schema, emit=wk.emit(wk.every("5 microseconds")))


def test_queries_of_several_zones_come_and_go() -> None:
    """Results show windows in the zone of all queries, if there is one; earlier ones are withdrawn in it."""

    def days(zone: str | None, emit: wk.Emission | None = None) -> wk.Query:
        windows = wk.tumbling("1 day", zone=zone)
        return wk.query(by="k", time="t", windows=windows, aggs=wk.count().alias("n"), emit=emit)

    def rows(*hours: int) -> pa.Table:
        times = [datetime(2026, 7, 1, tzinfo=timezone.utc) + timedelta(hours=hour) for hour in hours]
        return pa.table({"k": ["a"] * len(hours), "t": pa.array(times, pa.timestamp("us", "UTC"))})

    early = wk.emit(early=wk.rows(1), refinement="retracting")
    for first, second, shown in [
        ("Europe/Paris", None, "Europe/Paris"),
        (None, "Europe/Paris", "Europe/Paris"),
        ("Europe/Paris", "Asia/Tokyo", "UTC"),
    ]:
        operator = days(first, early).operator(order="out-of-order", name="first")
        before = operator.push(rows(8))
        operator.add(days(second, early), name="second")
        during = operator.push(rows(9, 40))
        assert before.schema.field("window_start").type.tz == (first or "UTC")
        assert during.schema.field("window_start").type.tz == shown
        operator.remove("first")
        after = operator.push(rows(41))
        assert after.schema.field("window_start").type.tz == (second or "UTC")
        counts: dict[Any, int] = {}
        for result in (before, during, after, operator.close()):
            for row in result.to_pylist():
                window = row.get("query_name", "first"), row["window_start"], row["n"]
                counts[window] = counts.get(window, 0) + row["weight"]
        assert set(counts.values()) <= {0, 1}, "no result is withdrawn that was not emitted"
