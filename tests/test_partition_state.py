"""State: batches, windows, snapshots, and every type of key."""

import datetime
import decimal
import pickle
from itertools import pairwise

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from windowkit.partition import Partitioner, rows

VARIANTS = [(method, "hll") for method in wk.partition.METHODS] + [
    (method, cardinality) for method in ("cm", "am", "cam", "lm") for cardinality in ("exact", "filter")
]


def skewed(count, distinct, seed=0):
    weights = 1 / np.arange(1, distinct + 1)
    return np.random.default_rng(seed).choice(distinct, count, p=weights / weights.sum())


@pytest.mark.parametrize(("method", "cardinality"), VARIANTS)
@given(cuts=st.lists(st.integers(0, 3_000), max_size=6), window=st.sampled_from([None, 700, 4_000]))
@settings(deadline=None, max_examples=6)
def test_one_call_is_many(method, cardinality, cuts, window):
    keys = skewed(3_000, 500)
    make = {"cardinality": cardinality, "window": None if window is None else rows(window), "seed": 3}
    whole = Partitioner(5, method, **make)
    want = whole.assign(keys)
    parts = Partitioner(5, method, **make)
    edges = [0, *sorted(cuts), 3_000]
    got = pa.chunked_array([parts.assign(keys[a:b]) for a, b in pairwise(edges)])
    assert got.combine_chunks() == want
    assert parts.loads() == whole.loads()
    assert parts.snapshot() == whole.snapshot()


@pytest.mark.parametrize(("method", "cardinality"), VARIANTS)
def test_chunks_and_slices_are_no_matter(method, cardinality):
    keys = pa.array(skewed(2_000, 300))
    want = Partitioner(4, method, cardinality=cardinality).assign(keys)
    chunked = pa.chunked_array([keys[:700], keys[700:700], keys[700:]])
    sliced = pa.concat_arrays([keys[:13], keys])[13:]
    encoded = keys.dictionary_encode()
    for same in (chunked, sliced, encoded, pa.table({"k": chunked}), pa.record_batch({"k": sliced})):
        assert Partitioner(4, method, cardinality=cardinality).assign(same) == want


@pytest.mark.parametrize(("method", "cardinality"), VARIANTS)
def test_a_snapshot_continues(method, cardinality):
    keys = skewed(30_000, 5_000)
    parameters = {"candidates": 3, "cardinality": cardinality, "bias": 0.3, "window": 10, "seed": 9}
    partitioner = Partitioner(6, method, **parameters)
    times = np.arange(30_000) // 1_500
    partitioner.assign(keys[:17_000], times[:17_000])
    snapshot = partitioner.snapshot()
    restored = Partitioner.restore(snapshot, workers=6, method=method, **parameters)
    pickled = pickle.loads(pickle.dumps(partitioner))
    assert restored.snapshot() == snapshot
    want = partitioner.assign(keys[17_000:], times[17_000:])
    assert restored.assign(keys[17_000:], times[17_000:]) == want
    assert pickled.assign(keys[17_000:], times[17_000:]) == want
    assert restored.loads() == partitioner.loads()
    assert restored.explain() == partitioner.explain()


@pytest.mark.parametrize(("method", "cardinality"), VARIANTS)
def test_a_damaged_snapshot_is_refused(method, cardinality):
    partitioner = Partitioner(3, method, cardinality=cardinality)
    partitioner.assign(skewed(2_000, 100))
    snapshot = partitioner.snapshot()
    generator = np.random.default_rng(0)
    for place in [*range(min(64, len(snapshot))), *generator.integers(0, len(snapshot), 100)]:
        damaged = bytearray(snapshot)
        damaged[place] ^= 1 << int(generator.integers(8))
        with pytest.raises(wk.InvalidValue, match="snapshot"):
            Partitioner.restore(bytes(damaged))
    for length in {0, 1, 9, 13, len(snapshot) // 2, len(snapshot) - 1}:
        with pytest.raises(wk.InvalidValue, match="snapshot"):
            Partitioner.restore(snapshot[:length])
    with pytest.raises(wk.InvalidValue, match="snapshot"):
        Partitioner.restore(snapshot + b"\0")


def test_a_snapshot_of_another_version_or_of_other_parameters_is_refused():
    snapshot = Partitioner(4, "cam", seed=1, window="1 hour").snapshot()
    other = bytearray(snapshot)
    other[8] += 1
    with pytest.raises(wk.InvalidValue, match="version 4"):
        Partitioner.restore(bytes(other))
    assert Partitioner.restore(snapshot, window="60 minutes", method="CAM").workers == 4
    for name, value in [
        ("workers", 5),
        ("method", "am"),
        ("candidates", 3),
        ("cardinality", "exact"),
        ("bias", 0.1),
        ("window", "2 hours"),
        ("seed", 2),
    ]:
        with pytest.raises(wk.InvalidValue, match=f"taken with {name}="):
            Partitioner.restore(snapshot, **{name: value})
    with pytest.raises(wk.InvalidType, match="'worker' is not a parameter"):
        Partitioner.restore(snapshot, worker=4)
    with pytest.raises(wk.InvalidType, match="snapshot"):
        Partitioner.restore("text")


@pytest.mark.parametrize(("method", "cardinality"), VARIANTS)
def test_seeds_decide_and_nothing_else_does(method, cardinality):
    keys = skewed(3_000, 400)
    runs = [
        Partitioner(7, method, cardinality=cardinality, seed=seed).assign(keys).to_pylist()
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@pytest.mark.parametrize(("method", "cardinality"), VARIANTS)
def test_reset_is_a_new_start(method, cardinality):
    keys = skewed(20_000, 400)
    partitioner = Partitioner(7, method, cardinality=cardinality, window=rows(15_000))
    fresh = partitioner.snapshot()
    first = partitioner.assign(keys)
    partitioner.reset()
    assert partitioner.loads() == [0] * 7
    assert partitioner.snapshot() == fresh
    assert partitioner.assign(keys) == first


@pytest.mark.parametrize(
    ("method", "cardinality"), [variant for variant in VARIANTS if variant[0] != "waterfill"]
)
def test_a_window_is_a_new_start(method, cardinality):
    """Alg. 1, lines 3 to 5: counts are reset when a window expires."""
    keys = skewed(4_000, 400)
    days = np.repeat(np.array([0, 1, 5, 6], "datetime64[D]"), 1_000)
    windowed = Partitioner(4, method, cardinality=cardinality, window="1 day")
    got = windowed.assign(keys, days.astype("datetime64[s]")).to_pylist()
    counted = Partitioner(4, method, cardinality=cardinality, window=rows(1_000))
    assert counted.assign(keys).to_pylist() == got
    alone = []
    for start in range(0, 4_000, 1_000):
        alone += (
            Partitioner(4, method, cardinality=cardinality).assign(keys[start : start + 1_000]).to_pylist()
        )
    assert got == alone
    assert sum(windowed.loads()) == 1_000


def test_waterfill_counts_anew_but_remembers_heavy_keys():
    keys = np.zeros(40_000, int)
    partitioner = Partitioner(8, window=rows(20_000))
    partitioner.assign(keys)
    assert sum(partitioner.loads()) == 20_000
    assert "1 heavy keys" in partitioner.explain()
    assert max(partitioner.loads()) < 1.02 * 2_500 + 3


@pytest.mark.parametrize(
    "unit",
    [pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.duration("s")],
)
def test_windows_by_any_unit_of_time(unit):
    keys, seconds = [1, 1, 1, 1], [-1, 0, 59, 60]
    # Four rows, of which the middle two share a window: shuffle starts anew with each.
    times = pa.array(seconds, pa.int64()).cast(pa.duration("s")).cast(pa.int64()).cast(pa.timestamp("s"))
    times = times.cast(unit) if pa.types.is_timestamp(unit) else pa.array(seconds, pa.int64()).cast(unit)
    partitioner = Partitioner(3, "shuffle", window="1 minute")
    workers = partitioner.assign(keys, times).to_pylist()
    assert workers[0] == workers[1] == workers[3] != workers[2]


def test_windows_start_where_they_are_told():
    window = wk.tumbling(10, start_time=3)
    partitioner = Partitioner(5, "shuffle", window=window)
    workers = partitioner.assign([0] * 5, [-7, 2, 3, 12, 13]).to_pylist()
    assert workers[0] == workers[2] == workers[4]
    assert workers[1] == workers[3] != workers[0]


KEYS = [
    pa.array([None, None, None]),
    pa.array([True, False, None]),
    *(pa.array([0, 1, None], kind) for kind in (pa.int8(), pa.uint16(), pa.int32(), pa.uint64())),
    pa.array([np.float16(0.5), np.float16("nan"), None], pa.float16()),
    *(pa.array([0.5, float("nan"), None], kind) for kind in (pa.float32(), pa.float64())),
    *(pa.array([decimal.Decimal("1.5"), None], kind) for kind in (pa.decimal128(9, 2), pa.decimal256(50, 2))),
    *(pa.array(["a", "", None], kind) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *(pa.array([b"a", b"", None], kind) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    pa.array([b"ab", None], pa.binary(2)),
    *(pa.array([datetime.date(2020, 1, 1), None], kind) for kind in (pa.date32(), pa.date64())),
    *(pa.array([5, None], kind) for kind in (pa.time32("s"), pa.time64("ns"), pa.duration("ms"))),
    *(pa.array([5, None], pa.timestamp(unit, "Asia/Tokyo")) for unit in ("s", "ms", "us", "ns")),
    pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
    pa.array(["a", "b", "a", None]).dictionary_encode(),
    pa.array([[1, None], [], None]),
    pa.array([[1, 2], None], pa.list_(pa.int32(), 2)),
    pa.array([{"a": 1, "b": "x"}, {"a": None, "b": None}, None]),
    pa.array([], pa.string()),
]


@pytest.mark.parametrize("keys", KEYS, ids=lambda keys: str(keys.type))
@pytest.mark.parametrize("method", wk.partition.METHODS)
def test_every_type_is_a_key(keys, method):
    twice = pa.chunked_array([keys, keys])
    workers = Partitioner(64, "hash").assign(twice).to_pylist()
    assert workers[: len(keys)] == workers[len(keys) :]
    assert len(Partitioner(3, method).assign(twice)) == 2 * len(keys)
    costs = wk.partition.cost(twice, workers)
    assert costs.aggregation_cost == costs.groups


def test_several_columns_are_one_key():
    table = pa.table({"a": [1, 1, 2, None, None, 1], "b": ["x", "y", "x", "x", "x", "x"]})
    workers = Partitioner(10**4, "hash").assign(table).to_pylist()
    assert workers[0] == workers[5]
    assert workers[3] == workers[4]
    assert len(set(workers)) == 4
    assert Partitioner(10**4, "hash").assign(table.to_batches()[0]).to_pylist() == workers
    costs = wk.partition.cost(table, workers, workers=10**4)
    assert (costs.groups, costs.aggregation_cost) == (4, 4)


def test_foreign_columns_are_keys():
    want = Partitioner(9, "hash").assign(pa.array(["a", "b", "a"])).to_pylist()
    for keys in (
        ["a", "b", "a"],
        np.array(["a", "b", "a"]),
        polars.Series(["a", "b", "a"]),
        polars.DataFrame({"k": ["a", "b", "a"]}),
        pandas.Series(["a", "b", "a"]),
        pandas.DataFrame({"k": ["a", "b", "a"]}),
    ):
        assert Partitioner(9, "hash").assign(keys).to_pylist() == want
