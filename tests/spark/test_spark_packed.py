"""Route "packed": chunks come back as they were, and stages of any size answer what the definition says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as sf

import windowkit as wk
import windowkit.spark
from support.cases import Case, cases
from support.malformed import longer, text
from support.oracle import assert_equal, evaluate, rows_of
from support.programs import program
from support.tables import INTEGERS, NUMBERS, OTHERS
from windowkit import _native
from windowkit.local.query import plan
from windowkit.spark.jobs.job import job
from windowkit.spark.partition.exchange import hashed
from windowkit.spark.routes import packed, stages
from windowkit.spark.shipping import packing
from windowkit.spark.shipping.tasks import sound

TINY = stages.Limits(slots=4, rows=4, trial=3, bytes=200, chunk=100, yielded=300, joined=400)
"""So that a few rows make many rounds and chunks."""

FILTERED = [HealthCheck.too_slow, HealthCheck.filter_too_much]

Chunk = tuple[int, bytes, int, int]

BUCKET = 5


def packed_by(pack: stages.Pack, table: pa.Table, rows: int) -> list[Chunk]:
    """Return what a task makes of a table that comes in batches of `rows` rows."""
    batches = pack(iter(table.to_batches(max_chunksize=rows)))
    made = [batch.to_pydict() for batch in batches]
    return [chunk for columns in made for chunk in zip(*columns.values(), strict=True)]


def answered(unpack: stages.Unpack, chunks: list[Chunk], partitions: int) -> Iterator[pa.RecordBatch]:
    """Yield what stage 2 makes of chunks that Spark would shuffle so, three of them at once."""
    for partition in range(partitions):
        own = sorted(
            (chunk for chunk in chunks if hashed(chunk[0]) % partitions == partition), key=lambda c: c[0]
        )
        batches = (
            pa.record_batch(
                [pa.array([c[0] for c in own[at : at + 3]], pa.int32()), [c[1] for c in own[at : at + 3]]],
                names=["bucket", "chunk"],
            )
            for at in range(0, len(own), 3)
        )
        yield from unpack(batches)


def check(case: Case, tasks: int, partitions: int, share: float, rows: int) -> None:
    """Assert that both stages, with these numbers of tasks and partitions, answer as the definition does."""
    query = case.query
    table = case.table.select(query.inputs)
    # Others are refused: their rows take the route "rows".
    assume(not plan(query, table.schema).needs_rows)
    limits = replace(TINY, share=share)
    pack = stages.Pack(query, table.schema, partitions, 3, limits=limits)
    each = table.num_rows // tasks + 1

    def run() -> pa.Table:
        chunks: list[Chunk] = []
        for task in range(tasks):
            chunks += packed_by(pack, table.slice(task * each, each), rows)
        assert sum(chunk[2] for chunk in chunks) <= table.num_rows
        unpack = stages.Unpack(query, table.schema, limits)
        batches = list(answered(unpack, chunks, partitions))
        return pa.Table.from_batches(batches, query.schema(table))

    try:
        expected = evaluate(query, case.table)
    except OverflowError:
        with pytest.raises(wk.Overflow):
            run()
        return
    assert_equal(expected, rows_of(query, run()))


sizes = st.tuples(
    st.integers(1, 3), st.integers(1, 4), st.sampled_from([0.0, 0.7, 100.0]), st.sampled_from([1, 2, 7, 50])
)


@settings(max_examples=150, suppress_health_check=FILTERED)
@given(cases(NUMBERS), sizes)
def test_numbers_equal_the_oracle(case, sizes):
    check(case, *sizes)


@settings(max_examples=100, suppress_health_check=FILTERED)
@given(cases(INTEGERS), sizes)
def test_integers_equal_the_oracle_or_overflow_with_it(case, sizes):
    check(case, *sizes)


@settings(max_examples=100, suppress_health_check=FILTERED)
@given(cases(OTHERS), sizes)
def test_types_without_arithmetic_equal_the_oracle(case, sizes):
    check(case, *sizes)


def ordered(rows: int, keys: int, step: int) -> pa.Table:
    """Rows in order of time, `step` units apart."""
    return pa.table(
        {
            "k": pa.array([row * 7919 % keys for row in range(rows)], pa.int64()),
            "t": pa.array(range(0, rows * step, step), pa.int64()),
            "v": pa.array([float(row % 97) for row in range(rows)]),
        }
    )


SLIDING = wk.query(by="k", time="t", windows=wk.sliding(100, 10), aggs=[wk.sum("v"), wk.max("v")])


@pytest.mark.parametrize(("keys", "step", "slices"), [(4, 1, True), (997, 1, False), (4, 10, False)], ids=str)
def test_slices_are_made_only_where_they_save_bytes(keys, step, slices):
    table = ordered(3000, keys, step)
    pack = stages.Pack(SLIDING, table.schema, 2, 4, limits=replace(stages.LIMITS, trial=1000))
    chunks = packed_by(pack, table, 500)
    assert sum(rows for _, _, rows, _ in chunks) == 3000
    kinds = [packing.unpack(chunk, fingerprint(table), bucket)[0] for bucket, chunk, _, _ in chunks]
    assert set(kinds[-3:]) == {packing.SLICES if slices else packing.ROWS}
    assert_equal(evaluate(SLIDING, table), rows_of(SLIDING, windows_of(table, chunks)))


def test_slices_are_tried_again_after_some_rows():
    # First a key per row, then few keys.
    table = pa.concat_tables([ordered(1000, 997, 10), ordered(9000, 4, 1)])
    limits = replace(stages.LIMITS, trial=500, again=1500, bytes=8000)
    chunks = packed_by(stages.Pack(SLIDING, table.schema, 2, 4, limits=limits), table, 100)
    kinds = [packing.unpack(chunk, fingerprint(table), bucket)[0] for bucket, chunk, _, _ in chunks]
    assert packing.ROWS in kinds[:10]
    assert packing.ROWS not in kinds[-3:]
    assert sum(rows for _, _, rows, _ in chunks) == 10_000
    assert sum(slices for *_, slices in chunks) < 5_000
    assert_equal(evaluate(SLIDING, table), rows_of(SLIDING, windows_of(table, chunks)))


def fingerprint(table: pa.Table) -> bytes:
    return packing.fingerprint(SLIDING, table.schema)


def windows_of(table: pa.Table, chunks: list[Chunk]) -> pa.Table:
    batches = list(answered(stages.Unpack(SLIDING, table.schema), chunks, 2))
    return pa.Table.from_batches(batches, SLIDING.schema(table))


def test_a_hint_packs_rows_from_the_first_on():
    table = ordered(100, 2, 1)
    chunks = packed_by(stages.Pack(SLIDING, table.schema, 2, 4, never=True), table, 10)
    assert [slices for *_, slices in chunks] == [0] * len(chunks)
    assert_equal(evaluate(SLIDING, table), rows_of(SLIDING, windows_of(table, chunks)))


@pytest.mark.parametrize("kind", [packing.SLICES, packing.ROWS])
def test_any_damaged_byte_is_noticed(kind):
    table = ordered(9, 2, 1)
    (batch,) = table.to_batches()
    print_of = fingerprint(table)
    chunk = packing.pack(kind, batch, print_of, BUCKET)
    assert packing.unpack(chunk, print_of, BUCKET) == (kind, batch)
    for at in range(len(chunk)):
        damaged = bytearray(chunk)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(wk.InvalidValue, match="packed slices: "):
            packing.unpack(bytes(damaged), print_of, BUCKET)
    for length in range(len(chunk)):
        with pytest.raises(wk.InvalidValue, match="packed slices: a chunk of"):
            packing.unpack(chunk[:length], print_of, BUCKET)
    # Format 3, whose header was longer, is recognised by its number, whatever follows.
    old = chunk[:4] + (3).to_bytes(2, "little") + chunk[6:]
    for length in (6, 32, len(chunk)):
        with pytest.raises(wk.InvalidValue, match=r"a chunk has format 3; windowkit .* reads format 4"):
            packing.unpack(old[:length], print_of, BUCKET)
    with pytest.raises(wk.InvalidValue, match="packed slices: a chunk of"):
        packing.unpack(chunk + b"\0", print_of, BUCKET)
    for bucket in (BUCKET + 1, None):
        with pytest.raises(wk.InvalidValue, match=f"a chunk of bucket 5 came with bucket {bucket}"):
            packing.unpack(chunk, print_of, bucket)


HOSTILE = """
import random
import sys

import pyarrow as pa

import windowkit as wk
from windowkit.spark.routes import stages
from windowkit.spark.shipping import packing

QUERY = wk.query(
    by="k",
    time="t",
    windows=wk.sliding(10, 3),
    aggs=[wk.max("v"), wk.median("f"), wk.collect_list("v"), wk.hll_sketch("f"), wk.collect_rows("k", "v")],
)
table = pa.table({
    "k": pa.array(["a", None, "bc", "a"] * 5).dictionary_encode(), "t": range(20),
    "v": ["text", "a longer text", None, ""] * 5, "f": [0.5, None] * 10,
})
random.seed(int(sys.argv[1]))
print_of = packing.fingerprint(QUERY, table.schema)
unpack = stages.Unpack(QUERY, table.schema)
refused = passed = 0
for never in (False, True):
    pack = stages.Pack(QUERY, table.schema, 1, 1, never=never)
    for chunk in pa.Table.from_batches(pack(iter(table.to_batches())))["chunk"].to_pylist():
        kind, batch = packing.unpack(chunk, print_of, 0)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        good = sink.getvalue().to_pybytes()
        for _ in range(1500):
            body = bytearray(good)
            for _ in range(random.randint(1, 3)):
                at = random.randrange(len(body))
                body[at] = random.choice([0, 1, 127, 128, 255, random.randrange(256)])
            damaged = packing.header(kind, pa.py_buffer(bytes(body)), print_of, 0) + bytes(body)
            rows = pa.record_batch({"bucket": pa.array([0], pa.int32()), "chunk": [damaged]})
            try:
                for windows in unpack(iter([rows])):
                    windows.validate()
                passed += 1
            except (wk.WindowKitError, MemoryError):
                refused += 1
print(refused, passed)
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_chunks_whose_arrow_is_damaged_are_refused_or_read(seed):
    refused, passed = map(int, program(HOSTILE, seed).split())
    assert refused > 100
    assert passed > 100


def test_malformed_batches_are_refused():
    table = pa.table({"k": text(3, -5), "t": range(8), "v": range(8)})
    (batch,) = table.to_batches()
    print_of = packing.fingerprint(SLIDING, table.schema)
    chunk = packing.pack(packing.ROWS, batch, print_of, BUCKET)
    with pytest.raises(wk.InvalidValue, match="column 'k' is malformed Arrow data: row 2"):
        list(answered(stages.Unpack(SLIDING, table.schema), [(BUCKET, chunk, 8, 0)], 2))
    short = longer(pa.array(range(1000), pa.int64()))
    with pytest.raises(wk.InvalidValue, match="data: column 'v': malformed Arrow data: Buffer #1 too small"):
        list(sound(iter([short])))
    with pytest.raises(wk.InvalidValue, match="packed slices: a chunk cannot be read"):
        packing.unpack(
            packing.header(packing.ROWS, pa.py_buffer(b"a"), print_of, BUCKET) + b"a", print_of, BUCKET
        )


def test_buckets_may_be_interleaved_and_chunks_come_in_any_order():
    # Rounds of four rows: a bucket has several chunks of each of two tasks.
    table = ordered(60, 3, 1)
    pack = stages.Pack(SLIDING, table.schema, 2, 2, limits=replace(TINY, share=9.0))
    chunks = packed_by(pack, table.slice(0, 30), 3) + packed_by(pack, table.slice(30), 3)
    assert len(chunks) > 3 * len({bucket for bucket, *_ in chunks})
    for order in (chunks, chunks[::-1]):
        assert_equal(evaluate(SLIDING, table), rows_of(SLIDING, windows_of(table, order)))


def test_partitions_may_be_read_by_one_task():
    # As adaptive execution joins them: buckets in the order of their numbers, whatever their partitions.
    table = ordered(60, 11, 1)
    pack = stages.Pack(SLIDING, table.schema, 4, 3)
    chunks = sorted(packed_by(pack, table, 10), key=lambda chunk: chunk[0])
    made = answered(stages.Unpack(SLIDING, table.schema), chunks, 1)
    assert_equal(evaluate(SLIDING, table), rows_of(SLIDING, pa.Table.from_batches(made)))


TEXTS = st.lists(st.one_of(st.none(), st.text(max_size=40)), max_size=60)


@given(TEXTS, st.integers(1, 200))
def test_pieces_are_the_whole_in_parts_of_few_bytes(values, size):
    batch = pa.record_batch(
        {"n": pa.array(range(len(values)), pa.int8()), "v": pa.array(values, pa.string())}
    )
    made = list(packing.pieces(batch, size))
    assert pa.Table.from_batches(made, batch.schema).to_pylist() == batch.to_pylist()
    assert all(piece.num_rows == 1 or 0 < piece.nbytes < 2 * size for piece in made)


@pytest.mark.parametrize("name", ["last", "max", "collect_list", "collect_rows", "count_distinct"])
def test_wide_values_make_rounds_by_bytes(name):
    # 40 rows of 1,000 bytes in one batch, of which some 5 are held; a slice has up to 4 of them.
    values = [None if row % 11 == 3 else chr(97 + row % 26) * 1000 for row in range(40)]
    table = pa.table({"k": [row % 3 for row in range(40)], "t": list(range(40)), "v": values})
    query = wk.query(by="k", time="t", windows=wk.sliding(20, 10), aggs=getattr(wk, name)("v"))
    limits = stages.Limits(share=9.0, held=5000, bytes=3000, chunk=2000, yielded=1)
    (once, *_) = packed_by(stages.Pack(query, table.schema, 1, 1), table, 40)
    chunks = packed_by(stages.Pack(query, table.schema, 1, 1, limits=limits), table, 40)
    plan_of = packing.fingerprint(query, table.schema)
    whole = packing.unpack(once[1], plan_of, once[0])[1]
    parts = [packing.unpack(chunk, plan_of, bucket)[1] for bucket, chunk, _, _ in chunks]
    assert len(parts) > 5
    assert sum(rows for _, _, rows, _ in chunks) == 40
    assert max(part.nbytes for part in parts) < min(6000, whole.nbytes)
    made = pa.Table.from_batches(answered(stages.Unpack(query, table.schema), chunks, 1))
    assert_equal(evaluate(query, table), rows_of(query, made))


def test_a_null_instead_of_a_chunk_is_refused():
    null = pa.record_batch({"bucket": pa.array([0], pa.int32()), "chunk": pa.array([None], pa.binary())})
    with pytest.raises(wk.InvalidValue, match="packed slices: a chunk is null"):
        list(stages.Unpack(SLIDING, ordered(1, 1, 1).schema)(iter([null])))


def test_chunks_of_others_are_refused(monkeypatch):
    table = ordered(9, 2, 1)
    (batch,) = table.to_batches()
    ours = packing.pack(packing.ROWS, batch, fingerprint(table), BUCKET)
    with pytest.raises(wk.InvalidValue, match="a chunk is of plan 0000000000000000"):
        packing.unpack(packing.pack(packing.ROWS, batch, bytes(8), BUCKET), fingerprint(table), BUCKET)
    monkeypatch.setattr(_native, "__version__", "9.8.7")
    with pytest.raises(wk.InvalidValue, match=r"windowkit .* wrote a chunk, and 9\.8\.7 reads it"):
        packing.unpack(ours, fingerprint(table), BUCKET)


def test_fingerprints_tell_queries_apart():
    schema = ordered(1, 1, 1).schema
    others = [
        replace(SLIDING, by=()),
        replace(SLIDING, windows=(wk.sliding(100, 20),)),
        replace(SLIDING, aggs=(wk.sum("v"),)),
        replace(SLIDING, aggs=(wk.sum("v").where("f"), wk.max("v"))),
        replace(SLIDING, aggs=(wk.quantile("v", 0.5), wk.max("v"))),
    ]
    prints = {packing.fingerprint(query, schema) for query in [SLIDING, *others]}
    prints.add(packing.fingerprint(SLIDING, schema.set(2, pa.field("v", pa.int64()))))
    assert len(prints) == 7
    assert packing.fingerprint(SLIDING, schema) == packing.fingerprint(replace(SLIDING), schema)


def test_slices_of_another_query_are_refused_by_the_core():
    table = ordered(9, 2, 1)
    engine = plan(SLIDING, table.schema).engine()
    engine.push(table.to_batches()[0])
    (_, slices), *_ = engine.slices(1)
    other = wk.query(by="k", time="t", windows=wk.session(5), aggs=wk.sum("v"))
    with pytest.raises(wk.InvalidValue, match="slices of this query have"):
        plan(other, table.schema).engine().push_slices(slices)
    with pytest.raises(wk.InvalidValue, match="buckets: 0 is given"):
        plan(SLIDING, table.schema).split(table.to_batches()[0], 0)


def test_buckets_follow_the_partitions(readings, settings):
    query = wk.query(by="device", time="ts", windows=wk.session("1 minute"), aggs=wk.median("v"))
    for partitions, each in (("1", 64), ("4", 64), ("200", 5), ("1000", 1), ("8000", 1)):
        with settings({"spark.sql.shuffle.partitions": partitions}):
            assert packed.buckets(job(readings, query)) == (int(partitions), each)
    assert packed.buckets(job(readings, replace(query, by=()))) == (1, 1)


def test_partitions_get_equal_numbers_of_buckets():
    for partitions, each in ((4, 64), (7, 5)):
        numbers = stages.names(partitions, each)
        assert len(set(numbers)) == partitions * each
        of = [hashed(number) % partitions for number in numbers]
        assert of == [bucket // each for bucket in range(partitions * each)]


@pytest.mark.parametrize("by", [["k"], ["k", "s"], ["s", "a"], []], ids=str)
def test_keys_of_all_kinds(spark, by):
    # Compared with Spark's own grouping of the same rows.
    frame = spark.sql(
        "select if(id % 7 = 3, null, id % 5) as k, struct(id % 2 as x, if(id % 3 = 0, null, 'é') as y) as s, "
        "array(id % 3, null) as a, timestamp_seconds(id * 7 % 500) as ts, id as v from range(0, 300, 1, 3)"
    )
    aggs = [wk.sum("v"), wk.median("v")]
    query = wk.query(by=by, time="ts", windows=wk.tumbling("1 minute"), aggs=aggs, window_columns="struct")
    ours = query.run(frame, route="packed")
    theirs = frame.groupBy(*by, sf.window("ts", "1 minute")).agg(sf.sum("v"), sf.median("v"))
    assert sorted(map(repr, ours.collect())) == sorted(map(repr, theirs.collect()))


def test_functions_that_do_not_commute_take_rows(spark):
    # The text of a window in the order of time, over rows that tasks have in no order.
    frame = spark.createDataFrame(
        [(row % 2, row * 37 % 101, chr(97 + row * 37 % 101 % 26)) for row in range(101)],
        "k int, t long, c string",
    ).repartition(5)
    text = wk.aggregate(
        "text",
        lift=lambda values: values,
        combine=lambda a, b: pc.binary_join_element_wise(a, b, ""),
        lower=lambda states: states,
    )
    query = wk.query(by="k", time="t", windows=wk.sliding(40, 10), aggs=text("c"))
    rows = sorted((row.k, row.t, row.c) for row in frame.collect())
    wanted = set()
    for start in range(-30, 101, 10):
        for key in (0, 1):
            inside = [c for k, t, c in rows if k == key and start <= t < start + 40]
            if inside:
                wanted.add((key, start, "".join(inside)))
    made = query.run(frame, route="packed").collect()
    assert {(row.k, row.window_start, row[3]) for row in made} == wanted
    emitted = query.explain(frame, route="packed")
    assert "none: rows of k, t, c are packed as they are, as text(c) does not commute" in emitted


def test_parts_of_sums_may_be_beyond_what_sums_are(spark):
    big = "9" * 38
    frame = spark.sql(
        f"select 1 as k, id as t, cast(if(id = 2, '-{big}', '{big}') as decimal(38, 0)) as v, "
        "make_dt_interval(if(id = 2, -100000000, 100000000)) as d from range(3)"
    ).repartition(3)
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=[wk.sum("v"), wk.sum("d")])
    (row,) = query.run(frame, route="packed").collect()
    assert str(row["sum(v)"]) == big
    assert row["sum(d)"].days == 100000000
    with pytest.raises(wk.InvalidValue, match=r"a part of a sum of v, a decimal\(38,0\), may not fit"):
        query.run(frame, route="catalyst")


def test_metrics_count_what_goes_through(readings):
    query = wk.query(by="device", time="ts", windows=wk.sliding("10 minutes", "5 minutes"), aggs=wk.sum("v"))
    rows = readings.where("ts is not null").count()
    for route in ("packed", "catalyst-panes", "rows"):
        metrics = windowkit.spark.Metrics()
        windows = len(windowkit.spark.aggregate(readings, query, route, metrics=metrics).collect())
        counted = metrics.values()
        assert counted["rows in"] == rows
        assert counted["rows without a time"] == readings.count() - rows > 0
        assert counted["windows out"] == windows
        assert ("bytes packed" in counted) == (route == "packed")
        if route != "rows":
            assert 0 < counted["slices"] <= rows
        assert f"rows in: {rows:,}" in str(metrics)
        said = "<windowkit.spark.Metrics of the first action, succeeded or failed: "
        assert repr(metrics) == f"{said}{metrics}>"
        assert (
            f"<tr><th>rows in</th><td style='text-align: right'>{rows:,}</td></tr>" in metrics._repr_html_()
        )
    with pytest.raises(wk.InvalidType, match="timeout: 'x' is a str"):
        metrics.values("x")
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(wk.InvalidValue, match=f"timeout: {wrong} is out of range; timeout is a"):
            metrics.values(wrong)
    for wrong in (None, True, [1]):
        with pytest.raises(wk.InvalidType, match="timeout is a number of seconds"):
            metrics.values(wrong)
    assert repr(windowkit.spark.Metrics()).endswith(": no action yet>")
    assert "no action yet" in windowkit.spark.Metrics()._repr_html_()
    with pytest.raises(wk.InvalidValue, match="they belong to a result already"):
        windowkit.spark.aggregate(readings, query, metrics=metrics)
    with pytest.raises(wk.InvalidValue, match="they belong to no result yet"):
        windowkit.spark.Metrics().values()
    with pytest.raises(wk.InvalidType, match="metrics: a dict is given"):
        windowkit.spark.aggregate(readings, query, metrics={})
