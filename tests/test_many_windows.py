"""Keys with many windows: results come as they are computed, and take no more memory than a few batches."""

from __future__ import annotations

import re
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support import samples
from support.oracle import evaluate
from support.programs import program

YEAR = 365 * 24 * 3600 * 10**9

MEASURED = """
    import itertools
    import resource
    import sys
    import pyarrow as pa
    import windowkit as wk

    def peak():
        # Of this process and not of the one that it was forked from.
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        return int(status["VmHWM"].split()[0]) >> 10

    windows, times, slide, batches, threads = eval(sys.argv[1])
    table = pa.table({"t": times, "v": [1.0] * len(times), "k": [7] * len(times)})
    aggs = [wk.sum("v"), wk.count().alias("n")]
    query = wk.query(by="k", time="t", windows=eval(windows), aggs=aggs, max_windows=None)
    # Code and buffers of the first call are not the windows'.
    query.run(table.slice(0, 0))
    before = peak()
    rows = last = 0
    for batch in itertools.islice(query.batches(table, threads=threads), batches):
        starts = batch["window_start"]
        assert rows == 0 or starts[0].as_py() == last + slide
        last = starts[-1].as_py()
        assert last == starts[0].as_py() + slide * (batch.num_rows - 1)
        rows += batch.num_rows
    print(rows, peak() - before)
"""


def measured(windows: str, times: list[int], *, slide: int, batches: int | None, threads: int) -> list[int]:
    """Return how many windows were read, and the MiB that this took; windows follow each other by `slide`."""
    return [int(number) for number in program(MEASURED, (windows, times, slide, batches, threads)).split()]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("others", ["", ", wk.tumbling(rows=2)", ", wk.session(10)"])
def test_the_first_windows_of_a_year_of_nanoseconds_take_little(others: str, threads: int) -> None:
    windows = f"[wk.sliding({YEAR}, 1){others}]"
    read = measured(windows, [0, YEAR], slide=1, batches=20, threads=threads)
    assert read[0] == 20 * 65_536
    # A batch takes 3 MB; a year of windows, 1.5 EB.
    assert read[1] < 64 + 32 * threads


@pytest.mark.slow
def test_all_windows_of_a_key_take_little() -> None:
    read, taken = measured("wk.sliding(10**7, 1)", [5, 10**7], slide=1, batches=None, threads=2)
    assert read == 2 * 10**7 - 5
    assert taken < 128


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize(
    "windows",
    [
        [wk.sliding(3000, 1)],
        [wk.sliding(3000, 1), wk.session(7), wk.tumbling(50)],
        [wk.sliding(3000, 1), wk.sliding("3 rows", "2 rows"), wk.session(7), wk.sliding("2 rows", 5)],
    ],
    ids=len,
)
@pytest.mark.parametrize("text", [False, True])
def test_batches_are_the_same_on_any_number_of_threads(
    windows: list[wk.Window], threads: int, text: bool
) -> None:
    """Several batches of a key, and several keys of a batch."""
    count = 600
    times = [n * 7919 % 200_000 for n in range(count)]
    keys = [n % 3 if n % 2 else n // 10 for n in range(count)]
    values = [f"{n * 31 % 97:>9}" for n in range(count)] if text else [n * 31 % 97 for n in range(count)]
    table = pa.table({"k": keys, "t": times, "v": values})
    query = wk.query(by="k", time="t", windows=windows, aggs=[wk.max("v"), wk.count().alias("n")])
    one = query.batches(table, threads=1).read_all()
    assert query.batches(table, threads=threads).read_all() == one
    assert query.run(table, threads=threads) == one


def test_windows_of_one_key_are_those_of_the_definition() -> None:
    """Far more windows than a batch has, on both sides of a stretch without rows."""
    times, size = [0, 1, 70_000, 300_000], 90_001
    table = pa.table({"t": times, "v": [1, 2, 4, 8]})
    query = wk.query(by=[], time="t", windows=[wk.sliding(size, 1), wk.tumbling(rows=3)], aggs=wk.sum("v"))
    batches = list(query.batches(table, threads=2))
    assert all(batch.num_rows <= 65_536 for batch in batches)
    rows = [row for batch in batches for row in batch.to_pylist()]
    got = {row["window_start"]: row["sum(v)"] for row in rows if row["window_rows_start"] is None}
    wanted = {}
    for start in range(-size, 300_001):
        inside = [
            value for time, value in zip(times, [1, 2, 4, 8], strict=True) if start <= time < start + size
        ]
        if inside:
            wanted[start] = sum(inside)
    assert got == wanted
    assert len(rows) == len(got) + 1
    assert (rows[-1]["window_rows_start"], rows[-1]["window_rows_end"], rows[-1]["sum(v)"]) == (0, 3, 7)


def test_an_error_comes_after_the_batches_before_it() -> None:
    """Of several threads, one may fail before the batches of another are read."""
    most = 2**62
    table = pa.table({"k": [0] * 200 + [1, 1], "t": [*range(200), 0, 1], "v": [1] * 200 + [most, most]})
    query = wk.query(by="k", time="t", windows=wk.sliding(1000, 1), aggs=wk.sum("v"))
    reader = query.batches(pa.concat_tables([table] * 1), threads=2)
    read: list[int] = []
    with pytest.raises(wk.Overflow, match="sum"):
        read.extend(batch.num_rows for batch in reader)
    assert sum(read) in (0, 1199)
    with pytest.raises(wk.InvalidValue, match="begin again"):
        next(iter(reader))


def test_starts_follow_each_other() -> None:
    table = pa.table({"t": [0, 200_000]})
    query = wk.query(by=[], time="t", windows=wk.sliding(100_000, 1), aggs=wk.count().alias("n"))
    starts = [start for batch in query.batches(table) for start in batch["window_start"].to_pylist()]
    assert starts == [*range(-99_999, 1), *range(100_001, 200_001)]
    assert all(a < b for a, b in pairwise(starts))


EVERY = {name: [window] for name, window in samples.windows().items()} | {
    "overlapping": [wk.sliding(50, 1)],
    "several": [wk.sliding(10, 5), wk.session(5), wk.tumbling(10)],
    "rows and time": [wk.tumbling(rows=2), wk.sliding(50, 1), wk.session(5)],
}
TIMES = [0, 1, 5, 5, 20, 70, 71, 3, 300]
ROWS = pa.table(
    {
        "k": [n % 2 for n in range(9)],
        "t": TIMES,
        "v": range(9),
        "m": [n % 3 == 0 for n in range(9)],
        "g": [5] * 9,
    }
)


def allowed(windows: list[wk.Window], most: int | None) -> wk.Query:
    aggs = [wk.sum("v"), wk.count().alias("n")]
    return wk.query(by="k", time="t", windows=windows, aggs=aggs, max_windows=most)


def count_of(windows: list[wk.Window], table: pa.Table) -> int:
    """Return how many windows there are, by definition."""
    return sum(len(evaluate(allowed([window], None), table)) for window in windows)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", EVERY)
def test_the_limit_is_the_number_of_windows(name: str, threads: int) -> None:
    windows = EVERY[name]
    count = count_of(windows, ROWS)
    assert allowed(windows, count).run(ROWS, threads).num_rows == count
    refused = allowed(windows, count - 1) if count > 1 else None
    if refused is not None:
        with pytest.raises(
            wk.InvalidValue, match=rf"max_windows: .* at least {count} windows.* are {count - 1}\."
        ):
            refused.run(ROWS, threads)
        with pytest.raises(wk.InvalidValue, match="max_windows: "):
            refused.batches(ROWS, threads).read_all()


@given(
    windows=st.lists(st.sampled_from([*samples.together(), wk.sliding(50, 1)]), min_size=1),
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(-40, 40)), min_size=1, max_size=30),
)
@settings(max_examples=60, deadline=None)
def test_the_limit_is_exact(windows: list[wk.Window], rows: list[tuple[int, int]]) -> None:
    windows = list({window.name: window for window in windows}.values())
    keys, times = zip(*rows, strict=True)
    table = pa.table({"k": keys, "t": times, "v": times, "m": [time % 4 == 0 for time in times]})
    count = count_of(windows, table)
    if count > 1:
        with pytest.raises(wk.InvalidValue, match=f"at least {count} windows"):
            allowed(windows, count - 1).run(table, 1)
    assert allowed(windows, max(count, 1)).run(table, 1).num_rows == count


def test_windows_of_a_slide_in_the_wrong_unit_are_refused_before_any_is_computed() -> None:
    table = pa.table({"k": [0, 0], "t": pa.array([0, YEAR], pa.timestamp("ns")), "v": [1, 2]})
    often = wk.sliding("365 days", "1 nanosecond").alias("often")
    query = wk.query(by="k", time="t", windows=[wk.tumbling("1 day"), often], aggs=wk.sum("v"))
    said = (
        "max_windows: the query makes at least 63072000000000002 windows, most of them 'often'; allowed are "
        "1000000000. "
    )
    for evaluated in (query.run, query.batches):
        with pytest.raises(wk.InvalidValue, match=re.escape(said)):
            evaluated(table)
    op = query.operator(order="out-of-order")
    op.push(table)
    with pytest.raises(wk.InvalidValue, match=re.escape(said.replace("the query", "this call"))):
        op.close()
    with pytest.raises(wk.InvalidValue, match="max_windows"):
        query.operator().push(table)


@pytest.mark.parametrize("given_", [0, -1, 1.5, "many", True])
def test_limits_are_ints(given_: object) -> None:
    with pytest.raises(
        (wk.InvalidValue, wk.InvalidType), match=r"max_windows: .* int of at least 1, or None"
    ):
        allowed([wk.tumbling(10)], given_)  # type: ignore[arg-type]


def test_a_limit_may_be_of_any_size() -> None:
    assert allowed([wk.tumbling(10)], 2**70).run(ROWS).num_rows == 6


BY_STREAM = {name: windows for name, windows in EVERY.items() if name != "several"}


@pytest.mark.parametrize("name", BY_STREAM)
def test_a_call_that_would_emit_more_leaves_the_operator_as_it_was(name: str) -> None:
    windows, schema = BY_STREAM[name], ROWS.schema
    op = allowed(windows, None).operator(order="out-of-order", schema=schema)
    op.push(ROWS)
    before = op.snapshot()
    emitted = op.close()
    count = emitted.num_rows
    enough = wk.Operator.restore(before, allowed(windows, count))
    assert enough.close() == emitted
    if count > 1:
        limited = wk.Operator.restore(before, allowed(windows, count - 1))
        for _ in range(2):
            with pytest.raises(
                wk.InvalidValue, match=f"max_windows: this call makes at least {count} windows"
            ):
                limited.close()
            assert limited.snapshot() == before
        lifted = wk.Operator.restore(limited.snapshot(), allowed(windows, None))
        assert lifted.close() == emitted


@pytest.mark.parametrize("windows", [[wk.sliding(50, 1)], [wk.landmark(5, period=100)], [wk.session(5)]])
def test_the_limit_is_for_each_call_and_counts_updates(windows: list[wk.Window]) -> None:
    op = allowed(windows, None).operator(order="out-of-order", allowed_lateness=1000)
    limited = allowed(windows, 50).operator(order="out-of-order", allowed_lateness=1000)
    first, late = ROWS.slice(0, 1), ROWS.slice(2, 1)
    for each in (op, limited):
        assert each.push(first).num_rows == 0
    assert limited.advance(100) == op.advance(100)
    two = pa.concat_tables([late, late.set_column(0, "k", pa.array([1]))])
    emitted = op.push(two).num_rows
    if emitted > 50:
        with pytest.raises(wk.InvalidValue, match="max_windows: this call"):
            limited.push(two)
    assert limited.push(late).num_rows <= 50


def test_the_limit_of_each_query_is_its_own() -> None:
    op = allowed([wk.tumbling(10)], 100).operator(order="out-of-order", schema=ROWS.schema)
    op.add(allowed([wk.sliding(50, 1)], 10), name="many")
    op.push(ROWS)
    with pytest.raises(
        wk.InvalidValue, match=r"max_windows: this call .* 'sliding\(50, 1\)'; allowed are 10\."
    ):
        op.close()
    op.remove("many")
    assert op.close().num_rows == 6
