"""An operator that is put down and taken up again goes on as if nothing had happened, or is refused."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.forged import HEAD, sealed
from support.plain import assert_near
from support.registries import kinds_of_partials
from support.stream_oracle import results
from support.streams import Case, cases, queries, scalar, start
from windowkit.local.query import plan


def calls_of(case: Case, op: wk.Operator, at: int) -> dict[Any, list[Any]]:
    call = case.calls[at]
    if call.batch is not None:
        return results(op, op.push(call.batch))
    before = op.watermark
    time = case.schema.field("t").type
    now = 10 * at + call.advance
    if before is not None:
        kind = pa.int32() if pa.types.is_date(time) else pa.int64()
        now = max(now, before.cast(kind).as_py())
    return results(op, op.advance(scalar(now, time)))


@settings(max_examples=120)
@given(cases(), st.data())
def test_a_restart_changes_nothing(case: Case, data: st.DataObject) -> None:
    op, _ = start(case)
    again, _ = start(case)
    stop = data.draw(st.integers(0, len(case.calls)))
    added = data.draw(
        st.none() | queries(case.schema.field("t").type, list(case.query.by), [case.query.window_columns])
    )
    for at in range(len(case.calls)):
        if at == stop:
            again = wk.Operator.restore(again.snapshot(), list(again.queries.values()))
        if at == 1 and added is not None:
            op.add(added)
            again.add(added)
        try:
            expected = calls_of(case, op, at)
        except wk.InvalidValue as refused:
            # In order a watermark may be ahead of the rows: then both refuse them.
            with pytest.raises(wk.InvalidValue, match=str(refused)[:20]):
                calls_of(case, again, at)
            continue
        assert_near(calls_of(case, again, at), expected)
    assert again.schema == op.schema
    again = wk.Operator.restore(again.snapshot(), dict(again.queries))
    assert_near(results(again, again.close()), results(op, op.close()))
    mine, others = again.stats(), op.stats()
    assert (mine.rows, mine.late, mine.windows, mine.updates, mine.merges) == (
        others.rows,
        others.late,
        others.windows,
        others.updates,
        others.merges,
    )
    assert repr(again.take_late().to_pylist()) == repr(op.take_late().to_pylist())
    closed = wk.Operator.restore(again.snapshot(), list(again.queries.values()))
    with pytest.raises(wk.InvalidValue, match="closed"):
        closed.close()


QUERY = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=[wk.sum("v"), wk.median("v")])


def filled() -> wk.Operator:
    op = QUERY.operator(order="out-of-order")
    op.push(pa.table({"k": ["a", "b", "a"], "t": [1, 2, None], "v": [1, 2, 3]}))
    return op


def test_damaged_bytes_are_refused() -> None:
    whole = filled().snapshot()
    for at in range(24, len(whole), 7):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        with pytest.raises(wk.InvalidValue, match="snapshot: it is damaged: its checksum does not match"):
            wk.Operator.restore(bytes(damaged), QUERY)


def test_cut_off_bytes_are_refused() -> None:
    whole = filled().snapshot()
    for length in [8, 11, 12, 19, 20, 23, 24, 30, len(whole) // 2, len(whole) - 1]:
        with pytest.raises(wk.InvalidValue, match="snapshot: it is truncated"):
            wk.Operator.restore(whole[:length], QUERY)


def test_other_bytes_are_refused() -> None:
    whole = filled().snapshot()
    for other in [b"", b"WK", b"PAR1" + whole[4:]]:
        with pytest.raises(wk.InvalidValue, match="snapshot: these bytes are not a snapshot"):
            wk.Operator.restore(other, QUERY)
    with pytest.raises(wk.InvalidValue, match="snapshot: it is damaged: 1 bytes follow it"):
        wk.Operator.restore(whole + b"x", QUERY)
    with pytest.raises(wk.InvalidType, match="snapshot: it is a str"):
        wk.Operator.restore("text", QUERY)  # type: ignore[arg-type]


def test_other_versions_are_refused() -> None:
    whole = bytearray(filled().snapshot())
    whole[8] = 99
    with pytest.raises(wk.InvalidValue, match="version 99; this windowkit reads version 15"):
        wk.Operator.restore(bytes(whole), QUERY)


@pytest.mark.parametrize(
    "other",
    [
        wk.query(by="k", time="t", windows=wk.tumbling(11), aggs=[wk.sum("v"), wk.median("v")]),
        wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=[wk.sum("v"), wk.quantile("v", 0.25)]),
        wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=[wk.max("v"), wk.median("v")]),
        wk.query(by="k", time="t", windows=wk.session(10), aggs=[wk.sum("v"), wk.median("v")]),
    ],
)
def test_other_queries_are_refused(other: wk.Query) -> None:
    with pytest.raises(wk.InvalidValue, match="queries: query 'q1' differs from the one in the snapshot"):
        wk.Operator.restore(filled().snapshot(), other)


PARTS: dict[str, dict[str, Any]] = {
    "keys": {"by": ["k", "j"]},
    "time": {"time": "u"},
    "windows": {"windows": wk.sliding(10, 5)},
    "aggregates": {"aggs": wk.sum("i").alias("n")},
    "emission policy": {"emit": wk.emit(wk.rows(3), "retracting")},
    "weight": {"weight": "w"},
}
"""By what a refusal calls a part of a query: another one."""


@pytest.mark.parametrize("differing", [*([part] for part in PARTS), ["windows", "emission policy"], [*PARTS]])
def test_a_refusal_names_the_parts_in_which_a_query_differs(differing: list[str]) -> None:
    given: dict[str, Any] = {
        "by": "k",
        "time": "t",
        "windows": wk.tumbling(10).alias("x"),
        "aggs": wk.count().alias("n"),
    }
    names = ("k", "j", "t", "u", "i", "w")
    schema = pa.schema([(name, pa.int64()) for name in names])
    other = wk.query(**given | {key: value for part in differing for key, value in PARTS[part].items()})
    query = wk.query(**given)
    for one, another in [(query, other), (other, query)]:
        with pytest.raises(wk.InvalidValue) as refused:
            wk.Operator.restore(one.operator(schema=schema).snapshot(), another)
        way = ": one with a policy of its operator is dataclasses.replace(query, emit=...)"
        assert str(refused.value) == (
            "queries: query 'q1' differs from the one in the snapshot by its "
            f"{', '.join(differing)}; an operator is restored with the queries that it was made of"
            f"{way if 'emission policy' in differing else ''}"
        )


def test_other_numbers_and_names_of_queries_are_refused() -> None:
    whole = filled().snapshot()
    with pytest.raises(wk.InvalidValue, match="queries: 2 given; the snapshot is of 1"):
        wk.Operator.restore(whole, [QUERY, QUERY])
    with pytest.raises(wk.InvalidValue, match=r"queries: .*'other'.* named; the snapshot is of .*'q1'"):
        wk.Operator.restore(whole, {"other": QUERY})


def test_functions_of_ones_own_travel_as_their_states() -> None:
    concat = wk.aggregate(
        "concat",
        lift=lambda v: pc.cast(v, pa.string()),
        combine=lambda a, b: pc.binary_join_element_wise(a, b, "-"),
        lower=lambda states: states,
    )
    query = wk.query(by=[], time="t", windows=wk.sliding(10, 5), aggs=concat("v").alias("all"))
    op = query.operator()
    op.push(pa.table({"t": [1, 3], "v": [2, 3]}))
    again = wk.Operator.restore(op.snapshot(), query)
    again.push(pa.table({"t": [4], "v": [7]}))
    assert again.close().to_pylist() == [
        {"window_start": -5, "window_end": 5, "all": "2-3-7", "update": False},
        {"window_start": 0, "window_end": 10, "all": "2-3-7", "update": False},
    ]


ROWS = pa.table(
    {
        "k": pa.array(["a", "b", "a", None, "b", "a"]),
        "t": [1, 5, 3, 9, 12, None],
        "v": [1, 2, 3, None, 5, 6],
        "s": pa.array(["x", "a text of more than twelve bytes", None, "y", "x", "z"]).dictionary_encode(),
        "m": [False, True, False, False, True, False],
    }
)
TOTAL = wk.aggregate("total", lift=lambda v: v, combine=pc.add, lower=lambda s: s, commutative=False)


class Rises(wk.ContextAware):
    """Windows of neighbouring rows whose values rise."""

    columns = ("v",)

    def open(self) -> Risen:
        return Risen()


class Risen:
    def __init__(self) -> None:
        self.last: int | None = None

    def notify(self, first: int, times: pa.Array, v: pa.Array) -> Iterable[object]:
        for rank, value in enumerate(v.to_pylist(), first):
            if value is not None and self.last is not None and value > self.last:
                yield wk.Add(rank - 1, rank + 1)
            self.last = value


class Tens(wk.ContextFree):
    """Windows of ten units, from each fifth one on."""

    longest = 10

    def next_edge(self, t: int) -> int:
        return (t // 5 + 1) * 5

    def windows(self, since: int, until: int) -> Iterable[tuple[int, int]]:
        return [(end - 10, end) for end in range(since + 1, until + 1) if end % 5 == 0]


FORGED = {
    "slices": [
        wk.query(
            by="k",
            time="t",
            windows=[wk.sliding(10, 5).alias("a"), wk.session(2).alias("b")],
            aggs=[
                wk.sum("v"), wk.median("v"), wk.mode("s").alias("mode"), wk.first("s"), wk.max("s"),
                wk.arg_max("v", by="s"), wk.stddev_pop("v"), wk.approx_quantile("v", 0.5),
                wk.approx_count_distinct("v"), wk.collect_list("s").alias("list"), wk.min_count("s"),
                wk.collect_rows("s", "v"),
            ],
        )
    ],
    "one key": [wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))],
    "rows": [
        wk.query(
            by=["k", "s"],
            time="t",
            windows=[wk.tumbling(rows=2).alias("a"), wk.punctuation("m").alias("b")],
            aggs=[wk.sum("v"), TOTAL("v").alias("total"), wk.last("s").alias("last"), wk.median("v")],
        )
    ],
    "determined by rows": [
        wk.query(
            by="k",
            time="t",
            windows=[
                wk.sliding("3 rows", "2 rows", partial="end").alias("count"),
                wk.sliding("2 rows", 5).alias("last rows"),
                wk.sliding(5, "2 rows").alias("last time"),
                wk.punctuation("m").alias("ends"),
                wk.punctuation("m", at="start").alias("starts"),
            ],
            aggs=wk.sum("v"),
        )
    ],
    "of one's own": [
        wk.query(
            by="k",
            time="t",
            windows=[wk.custom(Rises()).alias("rises"), wk.custom(Tens()).alias("tens"), wk.session(3)],
            aggs=wk.sum("v"),
        )
    ],
    "both": [
        wk.query(by="k", time="t", windows=wk.session(3), aggs=wk.sum("v")),
        wk.query(by="k", time="t", windows=wk.tumbling(rows=2).alias("r"), aggs=wk.sum("v")),
    ],
}  # fmt: skip


ALIKE = {"count", "log_sum", "min", "arg_min", "max_count", "first_valid", "last_valid"}
"""Partials with the columns, and the code that reads them, of one that `FORGED` has."""


def test_snapshots_of_every_kind_of_partial_are_forged() -> None:
    queries = [query for several in FORGED.values() for query in several]
    forged = {each.kind for query in queries for each in plan(query, ROWS.schema).partials}
    assert forged | ALIKE >= set(kinds_of_partials()), "add a function with it to `FORGED`"


def forged_operator(name: str) -> wk.Operator:
    """Return an operator with rows on both sides of its watermark, and windows emitted, and emitted again."""
    first, *others = FORGED[name]
    op = first.operator(order="out-of-order", allowed_lateness=50, schema=ROWS.schema)
    for other in others:
        op.add(other)
    op.push(ROWS)
    op.advance(11)
    op.push(ROWS.slice(0, 3))
    if name == "determined by rows":
        op.punctuate(4)
        op.punctuate(10, {"k": "a"})
    return op


def restored(snapshot: bytes, queries: dict[str, wk.Query]) -> wk.Operator | None:
    # A forged schema is one that the queries do not fit, or are not bound to.
    refusals = (wk.InvalidValue, wk.InvalidType, wk.UnknownColumn)
    try:
        return wk.Operator.restore(snapshot, queries)
    except refusals:
        return None


def runs(snapshot: bytes, queries: dict[str, wk.Query]) -> bool:
    """Whether a snapshot is taken; then every call returns something, or refuses what it is given."""
    again = restored(snapshot, queries)
    if again is None:
        return False
    # What is taken for whole has numbers of another's, and runs or refuses calls as that one's would.
    calls: list[tuple[Callable[..., object], list[object]]] = [
        (again.push, [ROWS]), (again.slices, []), (again.advance, [70]), (again.push, [ROWS.slice(2)]),
        (again.snapshot, []), (again.close, []), (again.snapshot, []),
    ]  # fmt: skip
    for call, arguments in calls:
        with suppress(wk.InvalidValue, wk.Overflow):
            call(*arguments)
    return True


def contents(body: bytes) -> list[int]:
    """Return the places of bytes that are no heads of Arrow's messages: numbers, and what arrays hold."""
    places, at = [], 0
    while at < len(body):
        size = struct.unpack_from("<i", body, at + 4)[0] if body.startswith(b"\xff" * 4, at) else -1
        if 0 <= size <= len(body) - at - 8:
            at += 8 + size
            continue
        places.append(at)
        at += 1
    return places


NUMBERS = [struct.pack("<q", n) for n in (-1, 0, 1, 2, 7, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63))]
"""Lengths, places and times somewhere, and such as overflow."""


@settings(max_examples=400)
@pytest.mark.parametrize("name", FORGED)
@given(st.data())
def test_forged_bytes_are_refused_or_run(name: str, data: st.DataObject) -> None:
    op = forged_operator(name)
    whole = op.snapshot()
    body = whole[HEAD:]
    assert sealed(whole, body) == whole
    forged, places = bytearray(body), contents(body)
    # Now and then anywhere, and mostly where no reader of Arrow finds out.
    anywhere = data.draw(st.integers(0, 9)) == 0
    for _ in range(data.draw(st.sampled_from([1, 1, 2, 8]))):
        number = data.draw(st.integers(0, 2**16))
        at = number % len(body) if anywhere else places[number % len(places)]
        given_bytes = data.draw(st.binary(min_size=1, max_size=1) | st.sampled_from(NUMBERS))
        forged[at : at + len(given_bytes)] = given_bytes[: len(body) - at]
    if anywhere and data.draw(st.booleans()):
        del forged[data.draw(st.integers(0, len(forged) - 1)) :]
    runs(sealed(whole, bytes(forged)), dict(op.queries))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["determined by rows", "of one's own", "both"])
def test_each_byte_that_is_another_is_refused_or_runs(name: str) -> None:
    op = forged_operator(name)
    whole = op.snapshot()
    body = whole[HEAD:]
    emitted = []
    for at in contents(body):
        forged = bytearray(body)
        forged[at] ^= 1 << at % 3
        emitted.append(runs(sealed(whole, bytes(forged)), dict(op.queries)))
    # Values are another's; places of rows, slices and windows contradict each other.
    assert emitted.count(True) > 100
    assert emitted.count(False) > 100


def test_a_snapshot_is_of_functions_of_the_same_properties() -> None:
    def query(**properties: Any) -> wk.Query:
        total = wk.aggregate("total", lift=lambda v: v, combine=pc.add, lower=lambda s: s, **properties)
        return wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=total("v").alias("total"))

    op = query(commutative=True).operator(order="out-of-order")
    op.push(pa.table({"k": ["a", "a"], "t": [1, 2], "v": [1, 2]}))
    bytes_ = op.snapshot()
    assert wk.Operator.restore(bytes_, query(commutative=True)).close()["total"].to_pylist() == [3]
    for other in (query(commutative=False), query(commutative=True, invert=pc.subtract)):
        with pytest.raises(wk.InvalidValue, match="queries: query 'q1' differs from the one in the snapshot"):
            wk.Operator.restore(bytes_, other)


def test_a_policy_that_was_given_to_the_operator_is_asked_for_where_it_is_restored() -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count())
    op = query.operator(emit=wk.emit(wk.rows(1)))
    op.push(pa.table({"t": [1]}))
    with pytest.raises(wk.InvalidValue, match=r"policy; .*dataclasses\.replace\(query, emit=\.\.\.\)$"):
        wk.Operator.restore(op.snapshot(), query)
    again = dataclasses.replace(query, emit=wk.emit(wk.rows(1)))
    assert wk.Operator.restore(op.snapshot(), again).push(pa.table({"t": [2]})).num_rows == 1
