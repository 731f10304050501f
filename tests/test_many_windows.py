"""Keys with many windows: results come as they are computed, and take no more memory than a few batches."""

from __future__ import annotations

from itertools import islice, pairwise

import pyarrow as pa
import pytest

import windowkit as wk
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
    query = wk.query(by="k", time="t", windows=eval(windows), aggs=[wk.sum("v"), wk.count().alias("n")])
    # Code and buffers of the first call are not the windows'.
    query.run(table.slice(0, 0))
    before = peak()
    rows = last = 0
    for batch in itertools.islice(query.batches(table, threads=threads), batches):
        starts = batch["window"].field("start")
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
    got = {row["window"]["start"]: row["sum(v)"] for row in rows if row["window_rows"] is None}
    wanted = {}
    for start in range(-size, 300_001):
        inside = [value for time, value in zip(times, [1, 2, 4, 8], strict=True) if start <= time < start + size]
        if inside:
            wanted[start] = sum(inside)
    assert got == wanted
    assert len(rows) == len(got) + 1
    assert (rows[-1]["window_rows"], rows[-1]["sum(v)"]) == ({"start": 0, "end": 3}, 7)


def test_an_error_comes_after_the_batches_before_it() -> None:
    """Of several threads, one may fail before the batches of another are read."""
    most = 2**62
    table = pa.table({"k": [0] * 200 + [1, 1], "t": [*range(200), 0, 1], "v": [1] * 200 + [most, most]})
    query = wk.query(by="k", time="t", windows=wk.sliding(1000, 1), aggs=wk.sum("v"))
    reader = query.batches(pa.concat_tables([table] * 1), threads=2)
    rows = 0
    with pytest.raises(wk.Overflow, match="sum"):
        for batch in reader:
            rows += batch.num_rows
    assert rows in (0, 1199)
    assert list(islice(reader, 1)) == []


def test_starts_follow_each_other() -> None:
    table = pa.table({"t": [0, 200_000]})
    query = wk.query(by=[], time="t", windows=wk.sliding(100_000, 1), aggs=wk.count().alias("n"))
    starts = [start for batch in query.batches(table) for start in batch["window"].field("start").to_pylist()]
    assert starts == [*range(-99_999, 1), *range(100_001, 200_001)]
    assert all(a < b for a, b in pairwise(starts))
