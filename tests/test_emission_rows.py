"""Early results of windows that rows determine: those with a row from the first new one on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.oracle import taken
from support.oracle_aggregates import aggregate
from support.plain import key, plain
from support.rows_oracle import Kept
from support.streams import MARKS, row_windows

AGGS = [wk.count().alias("c"), wk.sum("i").alias("s"), wk.max("i").alias("x")]
KINDS = {"k": pa.string(), "t": pa.int64(), "i": pa.int64(), "b": pa.bool_()}
SCHEMA = pa.schema(KINDS | {name: kind for name, (kind, _) in MARKS.items()})
ROWS = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b"]),
        "t": st.integers(0, 60),
        "i": st.integers(-3, 5) | st.none(),
        "b": st.booleans() | st.none(),
    }
    | {name: values for name, (_, values) in MARKS.items()}
)


def open_windows(kept: Kept, since: dict[Any, int]) -> Counter[str]:
    """Return the windows that are not final, of the keys and from the times that are given."""
    found: Counter[str] = Counter()
    ((name, (query, *_)),) = kept.queries.items()
    (window,) = query.windows
    times, columns = kept.times(), {name: plain(kept.table[name]) for name in SCHEMA.names}
    for group, rows in kept.groups(name, window, columns).items():
        if group not in since:
            continue
        ranked = sorted(rows, key=lambda row: (times[row], row))
        final = {each.rows for each in kept.finals(window, ranked, times, columns, group)}
        kept.closing = True
        for each in kept.finals(window, ranked, times, columns, group):
            if each.rows not in final and max(times[row] for row in each.rows) >= since[group]:
                values = [
                    aggregate(agg, taken(agg, each.rows, columns), times, columns, SCHEMA)
                    for agg in query.aggs
                ]
                found[repr((*group, each.start, each.end, each.ranks, values))] += 1
        kept.closing = False
    return found


def shown(row: dict[str, Any]) -> str:
    extent, ranks = ((row.get(f"{name}_start"), row.get(f"{name}_end")) for name in ("window", "window_rows"))
    ranked = None if ranks == (None, None) else ranks
    return repr((row["k"], *extent, ranked, [row[agg.name] for agg in AGGS]))


def emitted(result: pa.Table) -> Counter[str]:
    rows = [row for row in result.to_pylist() if row["emission"] == "early"]
    assert not any(row["update"] for row in rows)
    return Counter(map(shown, rows))


def calls(data: st.DataObject, op: wk.Operator, kept: Kept, order: str) -> Iterator[tuple[str, pa.Table]]:
    """Make random calls of an operator and its oracle, with restarts; yield their names and results."""
    rows = data.draw(st.lists(ROWS, max_size=20))
    rows = sorted(rows, key=lambda row: row["t"]) if order == "in-order" else rows
    while rows:
        count = data.draw(st.integers(1, 6))
        batch, rows = pa.Table.from_pylist(rows[:count], SCHEMA), rows[count:]
        kept.push(batch)
        yield "push", op.push(batch)
        if order == "out-of-order" and data.draw(st.booleans()):
            target = max(kept.watermark or 0, kept.latest - data.draw(st.integers(0, 20)))
            kept.advance(target)
            yield "advance", op.advance(target)
        if data.draw(st.integers(0, 3)) == 0:
            op = wk.Operator.restore(op.snapshot(), op.queries)
        if data.draw(st.booleans()):
            yield "fire", op.fire()
    yield "close", op.close()


@settings(max_examples=400, deadline=None)
@given(st.data(), st.sampled_from(["in-order", "out-of-order"]), st.integers(1, 4))
def test_what_windows_by_rows_say_early(data: st.DataObject, order: str, number: int) -> None:
    window = row_windows(data.draw, pa.int64())
    query = wk.query(by="k", time="t", windows=window, aggs=AGGS)
    op = query.operator(order=order, schema=SCHEMA, emit=wk.emit(wk.rows(number)))
    kept = Kept("q1", query, SCHEMA, order=order)
    # The rows of each key since it last fired.
    pending: dict[Any, list[int]] = {}
    for call, result in calls(data, op, kept, order):
        if call == "push":
            keys = [key(value) for value in plain(kept.table["k"])]
            for row in kept.fresh:
                pending.setdefault((keys[row],), []).append(row)
        if call != "close":
            least = 1 if call == "fire" else number
            check(kept, pending, lambda own, least=least: len(own) >= least, result)


@settings(max_examples=400, deadline=None)
@given(st.data(), st.sampled_from(["in-order", "out-of-order"]), st.integers(1, 4))
def test_what_windows_by_rows_retract(data: st.DataObject, order: str, number: int) -> None:
    """Once all keys have fired, what was not retracted is the final windows and those that are open."""
    window = row_windows(data.draw, pa.int64())
    # A user's own window may take final ones back.
    if isinstance(window, wk.Custom) or data.draw(st.booleans()):
        # A row between two such sessions may join them, and shift the numbers of those after them.
        gap = data.draw(st.integers(1, 4))
        window = wk.session(gap, at_most=gap + data.draw(st.integers(0, 9)))
    query = wk.query(by="k", time="t", windows=window, aggs=AGGS)
    op = query.operator(order=order, schema=SCHEMA, emit=wk.emit(wk.rows(number), refinement="retracting"))
    kept = Kept("q1", query, SCHEMA, order=order)
    finals, standing = Counter[str](), Counter[str]()

    def take(result: pa.Table) -> None:
        for row in result.to_pylist():
            # A row whose own session is not over may join one that is, and was final: that is replaced.
            finals[shown(row)] += row["emission"] in ("final", "late")
            finals[shown(row)] -= row["emission"] == "retraction" and finals[shown(row)] > 0
            standing[shown(row)] += row["weight"]
            assert standing[shown(row)] >= 0

    for call, result in calls(data, op, kept, order):
        take(result)
        if call == "fire":
            assert +standing == +finals + open_windows(kept, {("a",): -1, ("b",): -1})
        if call == "close":
            assert +standing == +finals


def check(kept: Kept, pending: dict[Any, list[int]], fires: Any, got: pa.Table) -> None:
    """Compare what is emitted early by the keys that fire, and forget their rows."""
    times = kept.times()
    fired = [group for group, own in pending.items() if fires(own)]
    expected = open_windows(kept, {group: min(times[row] for row in pending.pop(group)) for group in fired})
    assert emitted(got) == expected
