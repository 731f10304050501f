"""The state of a bucket of keys in a stream, with Spark's part played in this process."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.spark_streams import Checkpoint, Kept, Log, Run
from windowkit.spark.streams import bucket
from windowkit.spark.streams.work import differences

SCHEMA = pa.schema(
    {
        "k": pa.string(),
        "ts": pa.timestamp("us", "UTC"),
        "v": pa.float64(),
        "mark": pa.bool_(),
        "gap": pa.duration("us"),
    }
)
SECOND = 1_000_000


def table(*rows: tuple[str | None, int | None, float | None]) -> pa.Table:
    """Return rows of a key, a time in seconds, and a value."""
    return pa.table(
        {
            "k": [key for key, _, _ in rows],
            "ts": pa.array(
                [None if at is None else at * SECOND for _, at, _ in rows], SCHEMA.field("ts").type
            ),
            "v": pa.array([value for _, _, value in rows], pa.float64()),
            "mark": [at is not None and at % 7 == 0 for _, at, _ in rows],
            "gap": pa.array([((at or 0) % 5 + 1) * SECOND for _, at, _ in rows], pa.duration("us")),
        },
        schema=SCHEMA,
    )


def some_batches(seed: int = 7, batches: int = 14, rows: int = 9) -> list[list[pa.Table]]:
    """Return batches of two tasks: rows out of order by up to 9 seconds, ties, and nulls of all kinds."""
    draw = random.Random(seed)
    made, at = [], 10
    for _ in range(batches):
        tasks = []
        for _ in range(2):
            given = []
            for _ in range(draw.randrange(rows)):
                at += draw.choice([0, 0, 1, 2])
                key = draw.choice(["a", "b", "c", None])
                value = draw.choice([None, 1.5, -2.0, float(draw.randrange(9))])
                given.append((key, None if draw.random() < 0.05 else at - draw.randrange(10), value))
            tasks.append(table(*given))
        made.append(tasks)
    return made


def all_rows(batches: list[list[pa.Table]]) -> pa.Table:
    return pa.concat_tables([rows for tasks in batches for rows in tasks])


def sorted_rows(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


def query(window: Any, **more: Any) -> wk.Query:
    aggs = [
        wk.sum("v"),
        wk.count().alias("n"),
        wk.median("v"),
        wk.last("v"),
        wk.count().where("mark").alias("m"),
    ]
    return wk.query(**{"by": "k", "time": "ts", "windows": window, "aggs": aggs, **more})


WINDOWS = [
    wk.tumbling("7 seconds"),
    wk.sliding("20 seconds", "6 seconds"),
    wk.session("2 seconds"),
    wk.session("gap"),
    wk.session("3 seconds", at_most="9 seconds"),
    wk.tumbling(rows=4),
    wk.sliding("5 rows", "2 rows"),
    wk.sliding("10 seconds", "3 rows"),
    wk.sliding("3 rows", "10 seconds"),
    wk.punctuation("mark"),
    wk.landmark("10 seconds", period="60 seconds"),
    [wk.tumbling("7 seconds"), wk.sliding("20 seconds", "6 seconds"), wk.session("2 seconds")],
]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("by", [["k"], []], ids=["by key", "of all rows"])
def test_windows_are_those_of_a_batch(window: Any, by: list[str]) -> None:
    wanted_query = query(window, by=by)
    batches = some_batches()
    # Rows of a later time end what is open; the windows that these rows open themselves are left out.
    end = 10_000
    last = [
        [table(*((key, end - 2, 0.0) for key in ("a", "b", "c", None)))],
        [table(("z", end + 10_000, 0.0))],
    ]
    whole = Run(wanted_query, SCHEMA, 10_000)
    returned = whole.all([*batches, *last])
    assert whole.late == 0
    wanted = wanted_query.run(all_rows([*batches, *last])).to_pylist()

    def before(rows: list[dict[str, Any]]) -> list[str]:
        return sorted_rows([row for row in rows if row["window_end"].timestamp() < end - 100])

    assert before(returned) == before(wanted)
    assert before(returned)
    assert [*returned[0]] == wanted_query.columns


SLIDING = wk.sliding("10 seconds", "5 seconds")
SESSION = wk.session("3 seconds")
POLICIES: list[tuple[Any, Any, Any]] = [
    (None, 0, [SLIDING, SESSION, wk.tumbling("20 seconds")]),
    (None, 0, [SESSION, wk.tumbling(rows=3)]),
    (None, "8 seconds", [SLIDING, SESSION]),
    (wk.emit(wk.rows(2)), 0, [SLIDING, SESSION]),
    (wk.emit(wk.rows(2) | wk.on("mark"), refinement="retracting"), "8 seconds", [SLIDING, SESSION]),
    (wk.emit(wk.every("5 seconds"), refinement="discarding"), 0, SLIDING),
    (wk.emit(wk.at(0.5), refinement="retracting"), 0, SLIDING),
    (wk.emit(later="15 seconds"), 0, [SLIDING, SESSION]),
]


@pytest.mark.parametrize(("policy", "lateness", "window"), POLICIES, ids=str)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**32), delay=st.integers(0, 9), snapshots=st.sampled_from([1, 2, 3, 10]))
def test_a_bucket_that_is_restored_for_each_batch_is_an_operator_that_lives(
    policy: Any, lateness: Any, window: Any, seed: int, delay: int, snapshots: int
) -> None:
    """One bucket: its steps are those calls of an operator, in which it has never been written down."""
    made = query(window, emit=policy)
    batches = some_batches(seed, 8, 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket, "EVERY", snapshots)
        patch.setattr(bucket, "ENTRY_BYTES", 300)
        run = Run(made, SCHEMA, delay * 1000, lateness=lateness, partitions=1, each=1)
        live = made.operator(
            order="out-of-order",
            allowed_lateness=lateness,
            schema=SCHEMA,
            updates=policy is not None or lateness != 0,
        )
        live.advance(0)
        for tasks in [*batches, [table(("a", 300, 1.0))], []]:
            watermark = run.checkpoint.watermark
            rows = all_rows([tasks or [table()]])
            rows = rows.filter(rows["ts"].is_valid())
            wanted = [*live.push(rows).to_pylist(), *live.advance(watermark * 1000).to_pylist()]
            returned = run.batch(*tasks)
            wanted = [{name: row[name] for name in run.work.columns} for row in wanted]
            assert sorted_rows(returned) == sorted_rows(wanted)
        assert run.late == live.late


@pytest.mark.parametrize("snapshots", [1, 3])
def test_a_bucket_of_sparse_keys_returns_all_windows(snapshots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of so many keys that rows wait for the end of their window, without a slice."""
    monkeypatch.setattr(bucket, "EVERY", snapshots)
    made = wk.query(by="k", time="ts", windows=wk.tumbling("10 seconds"), aggs=wk.sum("v"))
    run = Run(made, SCHEMA, partitions=1, each=1)
    keys = [str(number) for number in range(20_000)]
    batches = [[table(*((key, at, 1.0) for key in keys))] for at in (3, 13, 23, 33, 43)]
    # No row of the last window comes before it is over.
    returned = [row for tasks in [*batches, [], [table(("z", 100, 0.0))], []] for row in run.batch(*tasks)]
    assert sorted((row["k"], row["window_start"].second) for row in returned) == sorted(
        (key, start) for key in keys for start in (0, 10, 20, 30, 40)
    )
    assert {row["sum(v)"] for row in returned} == {1.0}


def test_update_mode_returns_the_windows_that_a_batch_changed() -> None:
    run = Run(query(wk.tumbling("10 seconds")), SCHEMA, mode="update")
    first = run.batch(table(("a", 1, 1.0), ("a", 12, 2.0)), table(("a", 2, 4.0)))
    assert [(row["window_start"].second, row["sum(v)"]) for row in first] == [(0, 5.0), (10, 2.0)]
    second = run.batch(table(("a", 13, 8.0), ("b", 40, 1.0)))
    assert sorted((row["k"], row["sum(v)"]) for row in second) == [("a", 10.0), ("b", 1.0)]
    assert run.batch() == []
    assert [*first[0]] == run.query.columns


def test_late_rows_are_counted_and_update_windows_within_the_lateness() -> None:
    batches = [
        [table(("a", 5, 1.0))],
        [table(("a", 40, 2.0))],
        [table(("b", 41, 0.0))],
        [table(("a", 6, 4.0))],
    ]
    run = Run(query(wk.tumbling("10 seconds")), SCHEMA)
    assert [(row["k"], row["n"]) for row in run.all(batches)] == [("a", 1)]
    assert run.late == 1
    run = Run(query(wk.tumbling("10 seconds")), SCHEMA, lateness="1 minute")
    assert [(row["k"], row["n"], row["update"]) for row in run.all(batches)] == [
        ("a", 1, False),
        ("a", 2, True),
    ]
    assert run.late == 0


def test_the_log_of_a_bucket_is_read_only_for_rows_and_when_a_result_is_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = []
    monkeypatch.setattr(Log, "iterator", lambda log: read.append(log) or iter([*log.entries.items()]))
    run = Run(query(wk.tumbling("100 seconds")), SCHEMA, partitions=1, each=1)
    returned = [run.batch(table(("a", at, 1.0))) for at in (0, 1)]
    # Other buckets' rows would move the watermark like this.
    for at in (50, 99):
        run.checkpoint.watermark = run.checkpoint.latest = at * 1000
        returned.append(run.batch())
    assert (len(read), returned) == (1, [[], [], [], []])
    run.checkpoint.watermark = run.checkpoint.latest = 100_000
    assert [row["n"] for row in run.batch()] == [2]
    assert len(read) == 2
    run.checkpoint.watermark = run.checkpoint.latest = 10**9
    assert run.batch() == []
    assert len(read) == 2


def test_a_row_of_an_idle_bucket_is_late_by_the_watermark_of_the_batch_before() -> None:
    """As in Spark, whose watermarks are of the whole stream, whichever keys it is that have rows."""
    run = Run(query(wk.tumbling("10 seconds")), SCHEMA, partitions=1, each=1)
    run.batch(table(("a", 1, 1.0)))
    for at in (20, 40):
        run.checkpoint.watermark = at * 1000
        run.batch()
    run.checkpoint.watermark = 60_000
    # 40 seconds was the watermark of the batch before, and 60 are that of this one.
    assert [row["window_start"].second for row in run.batch(table(("a", 35, 1.0), ("a", 45, 1.0)))] == [40]
    assert run.late == 1


def test_state_is_bounded_by_what_is_open() -> None:
    run = Run(query(wk.tumbling("10 seconds")), SCHEMA, partitions=1, each=1)
    sizes = []
    for at in range(0, 600, 3):
        run.batch(table(*((f"key {at} {n}", at, 1.0) for n in range(20))))
        (kept,) = (kept for number, kept in run.checkpoint.kept.items() if number != bucket.GUARD)
        sizes.append(sum(len(value[1]) for value in kept.log.entries.values()))
        # One says what the bucket belongs to, and one is its head.
        assert len(kept.log.entries) <= bucket.EVERY + 3
    # 80 keys at a time, of 4,000 in all.
    assert max(sizes) < 100_000
    run.checkpoint.watermark = 10**9
    run.batch()
    kinds = [value[0] for value in kept.log.entries.values()]
    assert kinds == [bucket.IDENTITY, bucket.SNAPSHOT, bucket.HEAD]
    assert bucket.Head.of(kept.log.getValue((bucket.TOP,))).ready_at == 0


def test_times_before_1970_are_late_as_in_spark() -> None:
    run = Run(query(wk.tumbling("10 seconds")), SCHEMA)
    run.batch(table(("a", -5, 1.0), ("a", 5, 2.0)))
    assert run.late == 1


def kept_one() -> tuple[Run, Kept]:
    run = Run(query(wk.tumbling("10 seconds")), SCHEMA, partitions=1, each=1)
    run.batch(table(("a", 1, 1.0)), table(("a", 2, 1.0)))
    run.batch(table(("a", 3, 1.0)))
    (kept,) = (kept for number, kept in run.checkpoint.kept.items() if number != bucket.GUARD)
    return run, kept


DAMAGES: dict[str, Any] = {
    "it has the entries [1]; it should have 2": lambda log: log.entries.pop((0,)),
    "has checksum": lambda log: change(log, lambda data: data[:-1] + bytes([data[-1] ^ 1])),
    "ends within a chunk": lambda log: change(log, lambda data: data[:-1]),
    "ends within a length": lambda log: change(log, lambda data: data + b"\0"),
    "a chunk begins with": lambda log: change(log, lambda data: data[:8] + b"none" + data[12:]),
    "is of kind 7": lambda log: log.entries.update({(1,): (7, b"", 0, 0)}),
    "it ends at watermark -1": lambda log: log.entries.update({(1,): (*log.entries[(1,)][:3], -1)}),
    "snapshot": lambda log: log.entries.update({(0,): (bucket.SNAPSHOT, b"none", 0, 0)}),
}


def change(log: Any, how: Any) -> None:
    kind, data, *watermarks = log.entries[(1,)]
    log.entries[(1,)] = (kind, how(data), *watermarks)


@pytest.mark.parametrize("message", DAMAGES)
def test_damaged_state_is_refused(message: str) -> None:
    run, kept = kept_one()
    DAMAGES[message](kept.log)
    with pytest.raises(wk.InvalidValue, match=r"state: bucket \d+ cannot be restored") as raised:
        run.batch(table(("a", 4, 1.0)))
    assert message in str(raised.value)
    assert "checkpointLocation" in str(raised.value)


def test_a_damaged_head_is_refused() -> None:
    run, kept = kept_one()
    kind, data, *watermarks = kept.log.entries[(bucket.TOP,)]
    kept.log.entries[(bucket.TOP,)] = (kind, data[:-1], *watermarks)
    with pytest.raises(wk.InvalidValue, match=r"the head of a bucket has 23 bytes; it should have 24"):
        run.batch(table(("a", 4, 1.0)))


def test_rows_of_another_version_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint outlives a release; what tasks send to each other does not."""
    before, _ = kept_one()
    monkeypatch.setattr("windowkit.spark.shipping.packing._native.__version__", "999.0.0")
    # Of the schema's bytes, which Arrow may write in another way.
    monkeypatch.setattr("windowkit.spark.shipping.packing.fingerprint", lambda *_: b"12345678")
    run = Run(before.query, SCHEMA, checkpoint=before.checkpoint, partitions=1, each=1)
    run.checkpoint.watermark = 10**6
    assert [row["n"] for row in run.batch()] == [3]


CHANGES: dict[str, dict[str, Any]] = {
    "windows ['tumbling(10 seconds)']": {"window": wk.tumbling("20 seconds")},
    "keys ['k']": {"by": []},
    "answers": {"aggs": wk.sum("v")},
    "emission policy None": {"emit": wk.emit(wk.rows(3))},
    "output_mode 'append'": {"mode": "update"},
    "allowed_lateness '0'": {"lateness": "1 minute"},
    "spark.sql.shuffle.partitions 2": {"partitions": 3},
    "buckets 2": {"each": 3},
}


@pytest.mark.parametrize("message", CHANGES)
def test_a_checkpoint_of_another_query_is_refused(message: str) -> None:
    checkpoint = Checkpoint()
    Run(query(wk.tumbling("10 seconds")), SCHEMA, checkpoint=checkpoint).batch(table(("a", 1, 1.0)))
    settings = dict(CHANGES[message])
    options = {
        name: settings.pop(name) for name in ("mode", "lateness", "partitions", "each") if name in settings
    }
    other = query(settings.pop("window", wk.tumbling("10 seconds")), **settings)
    run = Run(other, SCHEMA, checkpoint=checkpoint, **options)
    with pytest.raises(wk.InvalidValue, match="checkpointLocation: its state has ") as raised:
        run.batch(table(("q", 2, 1.0)))
    assert message in str(raised.value)
    # Without rows nobody speaks to the guard, but a bucket with a result is found to be another's.
    checkpoint.watermark = 10**6
    with pytest.raises(wk.InvalidValue, match="checkpointLocation: its state has ") as raised:
        Run(other, SCHEMA, checkpoint=checkpoint, **options).batch()
    assert message in str(raised.value)


def test_state_of_another_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the checkpoint as a whole, or of a snapshot in it, which another release may have written."""
    before, kept = kept_one()
    snapshot = before.work.operator().snapshot()
    newer = snapshot[:8] + bytes([snapshot[8] + 1]) + snapshot[9:]
    entry = kept.log.entries[(0,)]
    kept.log.entries[(0,)] = (bucket.SNAPSHOT, newer, *entry[2:])
    with pytest.raises(wk.InvalidValue, match=r"state: bucket \d+ cannot be restored .*version"):
        before.batch(table(("a", 4, 1.0)))
    monkeypatch.setattr("windowkit.spark.streams.work.FORMAT", 2)
    run = Run(before.query, SCHEMA, checkpoint=before.checkpoint, partitions=1, each=1)
    with pytest.raises(wk.InvalidValue, match="format of the state 1, and the query has 2"):
        run.batch(table(("a", 4, 1.0)))


def test_the_snapshot_of_another_query_is_refused() -> None:
    run, kept = kept_one()
    other = Run(query(wk.tumbling("20 seconds")), SCHEMA).work.operator().snapshot()
    entry = kept.log.entries[(0,)]
    kept.log.entries[(0,)] = (bucket.SNAPSHOT, other, *entry[2:])
    with pytest.raises(
        wk.InvalidValue, match=r"state: bucket \d+ cannot be restored .*differs from the one in the snapshot"
    ):
        run.batch(table(("a", 4, 1.0)))


def test_an_identity_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(wk.InvalidValue, match="cannot be read"):
        differences("{", "{}")


SESSIONS = [
    wk.session("2 seconds"),
    wk.session("3 seconds", at_most="5 seconds"),
    wk.session("gap"),
    wk.session("gap", at_most="6 seconds"),
]


@pytest.mark.parametrize("window", SESSIONS, ids=str)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), delay=st.integers(0, 6), snapshots=st.sampled_from([1, 3, 10]))
def test_each_row_is_in_one_session_that_is_returned_once(
    window: wk.Window, seed: int, delay: int, snapshots: int
) -> None:
    """In append mode no column says that a result replaces another: none may, whatever rows come late."""
    made = wk.query(by="k", time="ts", windows=window, aggs=[wk.count().alias("n"), wk.collect_rows()])
    batches = [*some_batches(seed, 12, 6), [table(*((key, 300, 0.0) for key in ("a", "b", "c", None)))]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket, "EVERY", snapshots)
        run = Run(made, SCHEMA, delay * 1000, partitions=1, each=1)
        returned = run.all([*batches, [table(("z", 900, 0.0))]])
    assert [*returned[0]] == made.columns
    given = all_rows(batches)
    timed = given.filter(given["ts"].is_valid()).num_rows
    assert sum(row["n"] for row in returned) + run.late == timed
    for row in returned:
        times = [each["ts"] for each in row[made.columns[-1]]]
        assert row["window_start"] == min(times) <= max(times) <= row["window_end"]


def test_windows_that_revise_themselves_say_so() -> None:
    class Everything(wk.ContextAware):
        def open(self) -> Any:
            raise NotImplementedError

    own = Run(query(wk.custom(Everything())), SCHEMA)
    assert "update" in own.work.columns
    assert "update" not in Run(query(wk.session("gap")), SCHEMA).work.columns
