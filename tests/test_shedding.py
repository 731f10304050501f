"""Load shedding: what is kept is exact, or an unbiased estimate, and what is dropped is counted."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "v": pa.int64()})
EXACT = {
    "time": wk.query(
        by="k",
        time="t",
        windows=[wk.tumbling(10), wk.sliding(20, 5)],
        aggs=[wk.count().alias("n"), wk.sum("v"), wk.median("v")],
    ),
    "sessions": wk.query(by="k", time="t", windows=wk.session(3), aggs=wk.max("v").alias("most")),
    "rows": wk.query(by="k", time="t", windows=wk.tumbling(rows=3), aggs=wk.collect_list("v").alias("all")),
}
COUNTED = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=[wk.count().alias("n"), wk.sum("v")])


def table(random: np.random.Generator, rows: int, keys: int, times: range) -> pa.Table:
    """Return rows of random keys and values, whose times begin with the first of these."""
    columns = {
        "k": random.integers(0, keys, rows),
        "t": np.sort(random.integers(times.start, times.stop, rows)),
        "v": random.integers(0, 100, rows),
    }
    return pa.table(columns, schema=SCHEMA)


def started(names: list[str], order: str, shed: wk.Shed | None) -> wk.Operator:
    first, *others = names
    op = EXACT[first].operator(order=order, schema=SCHEMA, name=first, shed=shed)
    for name in others:
        op.add(EXACT[name], name=name)
    return op


def by_key(result: pa.Table) -> dict[int, list[str]]:
    """Return what is said of each key, but for numbers, which begin anew once a key is over."""
    without = ("shed_share", "window_rows_start", "window_rows_end", "window_number")
    found = defaultdict(list)
    for row in result.to_pylist():
        found[row.pop("k")].append(str({name: value for name, value in row.items() if name not in without}))
    return {key: sorted(rows) for key, rows in found.items()}


@settings(max_examples=60)
@given(data=st.data())
def test_keys_that_are_kept_are_exact(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(EXACT)), min_size=1, unique=True))
    order = data.draw(st.sampled_from(["in-order", "out-of-order"]))
    limit = data.draw(st.sampled_from([1, 30_000, 100_000]))
    random = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    keys, calls = int(random.integers(1, 500)), int(random.integers(1, 9))
    whole, op = started(names, order, None), started(names, order, wk.shed(limit))
    gone: set[int] = set()
    for at in range(calls + 1):
        share = op.stats().shed_share
        if at == calls:
            got, wanted = op.close(), whole.close()
        elif order == "out-of-order" and random.random() < 0.4:
            got, wanted = op.advance(8 * at), whole.advance(8 * at)
        else:
            behind = 0 if order == "in-order" else int(random.integers(0, 12))
            times = range(10 * at - behind, 10 * at + 10)
            batch = table(random, int(random.integers(0, 300)), keys, times)
            got, wanted = op.push(batch), whole.push(batch)
        if random.random() < 0.3:
            op = wk.Operator.restore(op.snapshot(), dict(op.queries))
        assert got.schema.names == [*wanted.schema.names[:-1], "shed_share", "update"]
        assert set(got["shed_share"].to_pylist()) <= {share}
        found = by_key(got)
        for key, rows in by_key(wanted).items():
            if key in gone or found.get(key) != rows:
                # It was dropped, and nothing is said of it ever again.
                assert key not in found
                gone.add(key)
            found.pop(key, None)
        assert not found
        assert share >= op.stats().shed_share
    stats = op.stats()
    assert bool(gone) <= (stats.shed_share < 1)
    assert (stats.shed_share < 1) == (stats.keys_shed > 0)
    assert stats.rows + stats.rows_shed >= whole.stats().rows


def test_the_state_fits_and_everything_is_counted() -> None:
    random, limit = np.random.default_rng(1), 500_000
    op = COUNTED.operator(shed=wk.shed(limit, seed=7))
    last = 0.0
    for at in range(100):
        op.push(table(random, 1_000, 10_000, range(at, at + 1)))
        stats = op.stats()
        assert stats.bytes <= limit
        assert stats.rows + stats.rows_shed == 1_000 * (at + 1)
        last = stats.shed_share
    # Without a limit it would take three to four times as much.
    assert 1 / 8 <= last <= 1 / 2
    assert stats.slices_shed == stats.keys_shed > 0
    assert "shed: keys are kept where the state would take more than 500,000 bytes" in op.explain()


def kept(seed: int, limit: int, pushes: int) -> tuple[float, set[int]]:
    """Return the share of 4,096 keys that is kept, and which they are."""
    op = COUNTED.operator(order="out-of-order", shed=wk.shed(limit, seed=seed))
    keys = range(4096)
    for at in range(pushes):
        own = [key for key in keys if key % pushes == at]
        op.push(pa.table({"k": own, "t": [1] * len(own), "v": own}, schema=SCHEMA))
    return op.stats().shed_share, set(op.close()["k"].to_pylist())


def test_samples_of_keys_are_nested_however_rows_are_cut_into_batches() -> None:
    samples = [kept(3, limit, pushes) for limit in (40_000, 90_000, 250_000) for pushes in (1, 5, 64)]
    for share, keys in samples:
        assert abs(len(keys) - 4096 * share) < 5 * (4096 * share * (1 - share)) ** 0.5
        for other, others in samples:
            if share <= other:
                assert keys <= others
    (_, own), (_, others) = kept(3, 90_000, 1), kept(4, 90_000, 1)
    assert own != others


OVER = {"k": pa.int64(), "t": pa.int64(), "m": pa.bool_(), "gap": pa.int64()}


@pytest.mark.parametrize(
    "window",
    [
        wk.session(5),
        wk.session(5, at_most=20),
        wk.session("gap"),
        wk.punctuation("m"),
        wk.between("m", "m"),
        wk.tumbling(rows=1),
        wk.tumbling(rows=2),
        wk.sliding(5, "1 row"),
        wk.sliding(5, "2 rows"),
        wk.sliding(5, "2 rows", order="arrival"),
    ],
    ids=str,
)
def test_keys_that_are_over_do_not_count(window: wk.Window) -> None:
    query = wk.query(by="k", time="t", windows=window, aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order", schema=pa.schema(OVER), shed=wk.shed("300 kB"))
    whole = query.operator(order="out-of-order", schema=pa.schema(OVER))
    for batch in range(40):
        # A tenth of the keys come back again and again. After two rows of each, no window by rows has begun.
        keys = [*range(20), *range(200 * (batch + 1), 200 * (batch + 1) + 180)] * 2
        rows = pa.table({"k": keys, "t": [100 * batch] * 400, "m": [True] * 400, "gap": [3] * 400})
        assert by_key(op.push(rows)) == by_key(whole.push(rows))
        assert by_key(op.advance(100 * batch + 99)) == by_key(whole.advance(100 * batch + 99))
        assert op.stats().bytes < 300_000
    stats = op.stats()
    assert (stats.shed_share, stats.rows_shed, stats.keys_shed) == (1, 0, 0)


def test_how_many_rows_a_key_had_is_not_forgotten_where_windows_depend_on_it() -> None:
    query = wk.query(by="k", time="t", windows=wk.sliding(10, "2 rows"), aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order", schema=SCHEMA, shed=wk.shed(12_000))
    whole = query.operator(order="out-of-order", schema=SCHEMA)
    for batch in range(30):
        rows = pa.table({"k": range(60), "t": [100 * batch] * 60, "v": [1] * 60}, schema=SCHEMA)
        got, wanted = by_key(op.push(rows)), by_key(whole.push(rows))
        assert got == {key: wanted[key] for key in got}
        ended = by_key(op.advance(100 * batch + 99))
        assert len(by_key(whole.advance(100 * batch + 99))) == 60 * (batch % 2)
        assert (len(ended) > 0) == (batch % 2 == 1)
    assert op.stats().keys_shed > 0


def test_the_last_key_stays() -> None:
    op = COUNTED.operator(order="out-of-order", shed=wk.shed(1))
    op.push(pa.table({"k": [5] * 1000, "t": range(1000), "v": [1] * 1000}, schema=SCHEMA))
    stats = op.stats()
    assert (stats.slices, stats.keys_shed, stats.rows_shed) == (100, 0, 0)
    assert op.close()["n"].to_pylist() == [10] * 100


def estimated(seed: int, batches: list[pa.Table], limit: int, emit: wk.Emission | None) -> pa.Table:
    query = wk.query(
        by="k", time="t", windows=wk.tumbling(10), aggs=[wk.count().alias("n"), wk.sum("v").alias("s")]
    )
    op = query.operator(order="out-of-order", emit=emit, shed=wk.shed(limit, "rows", seed=seed))
    results = []
    for at, batch in enumerate(batches):
        results.append(op.push(batch))
        if at == len(batches) // 2:
            op = wk.Operator.restore(op.snapshot(), dict(op.queries))
    stats = op.stats()
    assert stats.shed_share <= 1 / 4
    assert stats.rows + stats.rows_shed == sum(batch.num_rows for batch in batches)
    assert stats.slices_shed > 0
    return pa.concat_tables([*results, op.close()])


@pytest.mark.parametrize(
    ("keys", "times", "limit", "emit"),
    [
        # A slice for nearly each row, many rows in each, and results of which each has other rows.
        (600, 3000, 60_000, None),
        (20, 200, 20_000, None),
        (300, 1000, 35_000, wk.emit(wk.rows(3), "discarding")),
    ],
    ids=["sparse", "dense", "discarding"],
)
def test_counts_and_sums_and_their_errors_are_unbiased(
    keys: int, times: int, limit: int, emit: wk.Emission | None
) -> None:
    random, seeds = np.random.default_rng(2), 300
    batches = [table(random, 500, keys, range(times)) for _ in range(8)]
    rows = pa.concat_tables(batches)
    truth = {"n": rows.num_rows, "s": pc.sum(rows["v"]).as_py()}
    runs = [estimated(seed, batches, limit, emit) for seed in range(seeds)]
    for name, wanted in truth.items():
        totals = np.array([pc.sum(run[name]).as_py() for run in runs])
        variances = np.array([pc.sum(pc.power(run[f"{name}_error"], 2)).as_py() for run in runs])
        assert abs(totals.mean() - wanted) < 4 * totals.std() / seeds**0.5
        assert 0.65 < variances.mean() / totals.var() < 1.5
        # An interval of two errors contains what it is about.
        assert np.mean(np.abs(totals - wanted) <= 2 * np.sqrt(variances)) > 0.88


def test_means_and_their_errors() -> None:
    """Where a window has some hundred rows that are kept, ratios are as good as unbiased."""
    random = np.random.default_rng(3)
    query = wk.query(by=["k"], time="t", windows=wk.tumbling(1000), aggs=wk.mean("v").alias("m"))
    errors, off = [], []
    for seed in range(100):
        op = query.operator(order="out-of-order", shed=wk.shed(9_000, "rows", seed=seed))
        # Many keys with a row each, which are gone by the time of the others.
        op.push(table(random, 2_000, 10**9, range(1000)))
        op.advance(1000)
        assert op.stats().shed_share < 1
        batch = table(random, 4_000, 2, range(1000, 2000))
        op.push(batch)
        means = batch.group_by("k").aggregate([("v", "mean")])
        wanted = dict(zip(means["k"].to_pylist(), means["v_mean"].to_pylist(), strict=True))
        for row in op.close().to_pylist():
            off.append(row["m"] - wanted[row["k"]])
            errors.append(row["m_error"])
    assert min(errors) > 0
    assert abs(np.mean(off)) < 4 * np.std(off) / len(off) ** 0.5
    assert 0.8 < np.mean(np.square(errors)) / np.mean(np.square(off)) < 1.25


def test_nothing_is_estimated_while_nothing_is_dropped() -> None:
    """Types do not depend on whether rows are dropped, nor do values where none are."""
    rows = pa.table(
        {
            "k": ["a", "a", "a", "b", "b", "c"],
            "t": [1, 2, 3, 4, 5, 6],
            "i": pa.array([2**62, None, 2**62, None, None, 7], pa.int64()),
            "f": [1.5, float("inf"), 2.0, float("nan"), 1.0, None],
            "d": pa.array([1, 2, None, 4, 5, 6], pa.decimal128(9, 2)),
            "s": ["x", None, "y", None, None, "z"],
            "b": [True, True, False, None, True, False],
        }
    )
    aggs = [
        wk.count().alias("rows"),
        wk.count("s").alias("texts"),
        wk.count().where("b").alias("true"),
        wk.sum("i").alias("i"),
        wk.mean("i").alias("mean"),
        wk.sum("f").alias("f"),
        wk.mean("f").alias("mean_f"),
        wk.sum("d").where("b").alias("d"),
    ]
    query = wk.query(by="k", time="t", windows=wk.sliding(10, 5), aggs=aggs)
    op = query.operator(order="out-of-order", shed=wk.shed("1 GB", "rows"))
    op.push(rows)
    result = op.close()
    exact = replace(query, aggs=(*aggs[:3], wk.count("i").alias("i"))).run(rows).to_pylist()
    wanted = {(row["k"], row["window_start"]): tuple(row.values())[3:] for row in exact}
    names = [f"{agg.name}{suffix}" for agg in aggs for suffix in ("", "_error")]
    assert result.schema.names == ["k", "window_start", "window_end", *names, "update"]
    for agg in aggs:
        assert set(result[f"{agg.name}_error"].drop_null().to_pylist()) == {0.0}
        kind = result.schema.field(agg.name).type
        assert kind == (pa.int64() if agg.function.startswith("count") else pa.float64())
    for row in result.to_pylist():
        key = (row["k"], row["window_start"])
        assert (row["rows"], row["texts"], row["true"]) == wanted[key][:3]
        assert (row["i"] is None) == (wanted[key][3] == 0) == (row["i_error"] is None)
    first = next(row for row in result.to_pylist() if row["k"] == "a")
    assert first["i"] == 2.0**63
    assert first["f"] == float("inf") == first["mean_f"]
    assert (first["d"], first["mean"]) == (3.0, 2.0**62)


def test_early_results_state_the_share_at_which_they_were_made() -> None:
    held = wk.emit(at_most=100)
    op = COUNTED.operator(order="out-of-order", emit=held, shed=wk.shed(200_000))
    op.push(table(np.random.default_rng(4), 400, 10**9, range(10)))
    assert op.stats().shed_share == 1
    assert op.advance(10).num_rows == 100
    op.push(table(np.random.default_rng(5), 20_000, 10**9, range(10, 20)))
    assert op.stats().shed_share < 1
    rest = op.close()
    of_first = pc.equal(rest["window_start"], 0)
    assert set(rest.filter(of_first)["shed_share"].to_pylist()) == {1.0}
    assert set(rest.filter(pc.invert(of_first))["shed_share"].to_pylist()) == {op.stats().shed_share}
    assert op.schema.names[-3:] == ["shed_share", "update", "emission"]


QUERY = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
ROWS = wk.shed("1 MB", "rows")


@pytest.mark.parametrize(
    ("query", "shed", "says"),
    [
        (QUERY, "1 GB", "shed: '1 GB' is given; it is what windowkit.shed(...) returns"),
        (replace(QUERY, by=()), wk.shed(9), "shed: keep='keys' is given for a query without keys (by=[])"),
        *(
            (
                replace(QUERY, aggs=(wk.count(), agg)),
                ROWS,
                f"shed: keep='rows' is given, and {agg.name} has no unbiased estimate from a sample of the",
            )
            for agg in [
                wk.min("v"),
                wk.median("v"),
                wk.first("v"),
                wk.count_distinct("v"),
                wk.stddev("v"),
                wk.aggregate("own", lift=lambda v: v, combine=lambda a, b: a, lower=lambda s: s)("v"),
            ]
        ),
        (replace(QUERY, weight="w"), ROWS, "shed: keep='rows' is given for a query with weight='w'"),
        *(
            (
                replace(QUERY, emit=wk.emit(refinement="retracting")),
                shed,
                "shed: it is given with refinement=",
            )
            for shed in (wk.shed(9), ROWS)
        ),
    ],
    ids=str,
)
def test_queries_that_a_sample_cannot_answer_are_refused_at_once(query: Any, shed: Any, says: str) -> None:
    with pytest.raises((wk.InvalidValue, wk.InvalidType), match=re.escape(says)):
        query.operator(shed=shed)
    if isinstance(shed, wk.Shed):
        op = QUERY.operator(shed=shed)
        with pytest.raises((wk.InvalidValue, wk.InvalidType), match=re.escape(says)):
            op.add(query)
        op.push(pa.table({"k": [1], "t": [1], "v": [1]}, schema=SCHEMA))
        again = wk.Operator.restore(op.snapshot(), QUERY)
        with pytest.raises((wk.InvalidValue, wk.InvalidType), match=re.escape(says)):
            again.add(query)


@pytest.mark.parametrize(
    ("windows", "agg", "says"),
    [
        (wk.session(5), wk.sum("v"), "shed: keep='rows' is given for session(5), which is determined"),
        (wk.tumbling(rows=5), wk.sum("v"), "shed: keep='rows' is given for tumbling(5 rows)"),
        (wk.tumbling(10), wk.sum("s"), "aggs: sum is not defined for column 's' of type"),
        (
            wk.tumbling(10),
            [wk.sum("v").alias("n"), wk.sum("v").alias("n_error")],
            "aggs: the result would have two columns 'n_error'",
        ),
    ],
    ids=str,
)
def test_queries_that_do_not_fit_the_schema_are_refused_once_it_is_known(
    windows: wk.Window, agg: Any, says: str
) -> None:
    query = wk.query(by="k", time="t", windows=windows, aggs=agg)
    with pytest.raises((wk.InvalidValue, wk.InvalidType), match=re.escape(says)):
        query.operator(shed=ROWS, schema=SCHEMA.append(pa.field("s", pa.string())))


def test_a_column_of_the_name_is_refused() -> None:
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v").alias("shed_share"))
    with pytest.raises(wk.InvalidValue, match="shed: results would have two columns 'shed_share'"):
        query.operator(shed=wk.shed(9), schema=SCHEMA)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"bytes": 0}, wk.InvalidValue, "bytes: 0 is out of range; it is a number of bytes above zero"),
        ({"bytes": "0.0001 kB"}, wk.InvalidValue, "bytes: '0.0001 kB' is out of range"),
        ({"bytes": 1.5}, wk.InvalidType, "bytes: 1.5 is a float; it is a number of bytes"),
        ({"bytes": True}, wk.InvalidType, "bytes: True is a bool"),
        ({"bytes": "1 parsec"}, wk.InvalidValue, "bytes: '1 parsec' is not understood; it is a number"),
        ({"bytes": "-1 GB"}, wk.InvalidValue, "bytes: '-1 GB' is not understood"),
        ({"bytes": "9999999 TiB"}, wk.InvalidValue, "bytes: '9999999 TiB' is out of range"),
        pytest.param({"bytes": "9" * 5000 + " GB"}, wk.InvalidValue, "9 GB' is out of range", id="digits"),
        (
            {"bytes": 9, "keep": "some"},
            wk.InvalidValue,
            "keep: 'some' is unknown; allowed are",
        ),
        ({"bytes": 9, "keep": None}, wk.InvalidType, "keep: None is a NoneType"),
        ({"bytes": 9, "seed": -1}, wk.InvalidValue, "seed: -1 is out of range; it is an int from 0"),
    ],
    ids=str,
)
def test_arguments_that_are_not_allowed(given: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=re.escape(says)):
        wk.shed(**given)


def test_sizes() -> None:
    given = {"1 GB": 10**9, "512 MiB": 2**29, "1.5kb": 1500, " 2_000 B ": 2000, "1 TiB": 2**40}
    assert {text: wk.shed(text).bytes for text in given} == given
    assert wk.shed(np.int64(7)).bytes == 7
