"""Waterfill's promises: aggregation always within its bound, loads level wherever heavy keys suffice."""

import re
from collections import Counter
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from windowkit import _native
from windowkit.partition import Partitioner, rows


@cache
def zipf(exponent, distinct, count, seed=7):
    weights = 1 / np.arange(1, distinct + 1) ** exponent
    keys = np.random.default_rng(seed).choice(distinct, count, p=weights / weights.sum())
    keys.flags.writeable = False
    return keys


def counts(keys, workers, seed=0):
    """Load ratio, distinct keys, and pairs of key and worker, by NumPy."""
    assigned = np.array(Partitioner(workers, seed=seed).assign(keys))
    pairs = np.unique(np.asarray(keys, np.int64) * 2**16 + assigned)
    return np.bincount(assigned).max() * workers / len(keys), len(np.unique(keys)), len(pairs)


@pytest.fixture(scope="module")
def goal():
    """The data of the goal: 4 M rows of Zipf(1.0) over 10^6 keys."""
    keys = zipf(1.0, 1_000_000, 4_000_000)
    assert len(np.unique(keys)) == 509_570
    return keys


@pytest.mark.slow
@pytest.mark.parametrize("workers", [8, 32, 128])
def test_both_costs_are_low_on_skew(goal, workers):
    ratio, distinct, pairs = counts(goal, workers)
    assert ratio <= 1.02
    assert pairs <= 1.01 * distinct


@pytest.mark.slow
@pytest.mark.parametrize("workers", [3, 32, 100])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("exponent", [0.9, 1.0, 1.2, 1.5, 2.0])
def test_level_on_skew_of_any_degree(exponent, workers, seed):
    keys = zipf(exponent, 100_000, 600_000, seed)
    ratio, distinct, pairs = counts(keys, workers, seed)
    assert ratio <= 1.02
    assert pairs <= distinct + max(0.01 * distinct, 16 * workers)


def drifting():
    """Which keys are heavy changes eight times."""
    keys = zipf(1.0, 100_000, 1_600_000)
    return (keys + np.arange(len(keys)) // 200_000 * 10_007) % 100_000


def bursts():
    """Half of every 20,000 rows is a key that was never seen before, and never comes again."""
    keys = zipf(1.0, 100_000, 1_600_000)
    hot = np.random.default_rng(1).random(len(keys)) < 0.5
    return np.where(hot, 10**6 + np.arange(len(keys)) // 20_000, keys)


ADVERSE = {
    "drift": (drifting, 1.06),
    "bursts": (bursts, 1.07),
    "sorted": (lambda: np.sort(zipf(1.0, 100_000, 1_600_000)), 1.08),
    "one key": (lambda: np.zeros(400_000, int), 1.02),
    "three keys": (lambda: np.random.default_rng(0).integers(0, 3, 400_000), 1.02),
    "many even keys": (lambda: np.random.default_rng(0).integers(0, 10**6, 1_600_000), 1.03),
    "some even keys": (lambda: np.random.default_rng(0).integers(0, 10**4, 1_600_000), 1.05),
    "each key once": (lambda: np.arange(1_600_000), 1.02),
    "little skew": (lambda: zipf(0.5, 10**5, 1_600_000), 1.04),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ADVERSE)
@pytest.mark.parametrize("workers", [8, 64])
def test_aggregation_is_bounded_whatever_comes(name, workers):
    make, limit = ADVERSE[name]
    keys = make()
    ratio, distinct, pairs = counts(keys, workers)
    assert pairs <= distinct + max(0.01 * distinct, len(keys) / (8 * workers), workers - 1)
    assert ratio <= limit
    by_hash = np.bincount(np.array(Partitioner(workers, "hash").assign(keys))).max() * workers / len(keys)
    assert ratio <= by_hash + 0.01


@given(
    stream=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 400)), max_size=60),
    workers=st.integers(1, 12),
    seed=st.integers(0, 2**64 - 1),
)
@settings(deadline=None, max_examples=150)
def test_aggregation_is_bounded_for_any_runs_of_keys(stream, workers, seed):
    keys = np.repeat([key for key, _ in stream], [times for _, times in stream]).astype(int)
    if len(keys) == 0:
        return
    _, distinct, pairs = counts(keys, workers, seed)
    assert distinct <= pairs <= distinct + max(len(keys) / (8 * workers), workers - 1)


class Distinct:
    """4096 HyperLogLog registers with the running estimate (Cohen 2014; Ting 2014)."""

    def __init__(self):
        self.ranks, self.estimate = [0] * 4096, 0.0

    def update(self, hashed):
        register, rest = hashed >> 52, format(hashed & (2**52 - 1), "052b") + "1"
        rank = rest.index("1") + 1
        if rank > self.ranks[register]:
            self.estimate += 4096 / sum(2.0**-old for old in self.ranks)
            self.ranks[register] = rank


def naive(hashes, buckets, workers, of_worker):
    """Waterfill for so few keys that its heavy hitters are exact, and before buckets are moved."""
    loads, heavy, distinct = [0] * workers, {}, Distinct()
    lately, counted, extra, cursor, assigned = Counter(), Counter(), 0, 0, []
    allowance = most_allowance = 0
    epoch, started = 512 * workers, 0
    for n, (key, bucket) in enumerate(zip(hashes, buckets, strict=True)):
        if n % 64 == 0:
            share = min(n, 512 * workers) / workers
            threshold = max(8, int(share / 16))
            of_keys, of_load = 0.01 * 0.96 * distinct.estimate, n / workers / 8
            allowance = int(max(of_keys, min(of_load, 16 * workers)))
            most_allowance = int(max(of_keys, of_load))
            if n >= epoch:
                epoch, started = n + 512 * workers, n
                lately.clear()
                counted.clear()
                stay = {k: e for k, e in heavy.items() if e["young"] or e["rows"] >= int(share / 64)}
                heavy = {k: e | {"rows": 0, "young": False} for k, e in stay.items()}
        mean = (n + 1) / workers
        brim = mean * 1.008 + 2
        if key not in heavy:
            worker = bucket // of_worker
            lately[bucket] += 1
            distinct.update(key)
            if lately[bucket] > threshold // 2:
                counted[key] += 1
                if counted[key] >= threshold - threshold // 2:
                    heavy[key] = {"worker": worker, "known": [worker], "at": 0, "rows": 0, "young": True}
        else:
            entry = heavy[key]
            entry["rows"] += 1
            worker = entry["worker"]
            if loads[worker] >= brim:
                for _ in range(min(8, len(entry["known"]))):
                    entry["at"] = (entry["at"] + 1) % len(entry["known"])
                    other = entry["known"][entry["at"]]
                    worker = other if loads[other] < loads[worker] else worker
                    if loads[other] < mean:
                        break
                dire = loads[worker] >= mean * 1.05
                allowed = most_allowance if dire else allowance
                if entry["rows"] >= 8 and entry["rows"] * workers > n + 1 - started:
                    allowed = max(allowed, workers - 1)
                if loads[worker] >= (mean + brim) / 2 and extra < allowed:
                    passed = [(cursor + step) % workers for step in range(min(16, workers))]
                    cursor = (cursor + len(passed)) % workers
                    new = min(passed, key=lambda w: loads[w])
                    if loads[new] < mean:
                        extra += new not in entry["known"]
                        entry["known"] += [new] * (new not in entry["known"])
                        worker = new
                entry["worker"] = worker
        loads[worker] += 1
        assigned.append(worker)
    return assigned


@pytest.mark.parametrize("workers", [1, 2, 5, 24])
@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0])
def test_waterfill_follows_its_description(workers, exponent):
    keys = zipf(exponent, 40, 20_000, seed=workers) + np.arange(20_000) // 10_000 * 7
    hashes = pa.array(_native.partition_hashes(pa.table({"key": keys}), 0)).to_pylist()
    of_worker = max(64, -(-1024 // workers))
    # A bucket is what the hash's first candidate would be among as many workers as there are buckets.
    places = wk.partition.candidates(keys, of_worker * workers, candidates=1)
    want = naive(hashes, places.flatten().to_pylist(), workers, of_worker)
    assert Partitioner(workers).assign(keys).to_pylist() == want


FEW_ROWS = {
    "one key": (lambda: np.zeros(400_000, int), 256, 1.02),
    "40 keys, each of six shares": (lambda: np.random.default_rng(0).integers(0, 40, 400_000), 256, 1.15),
    "a hot key in 2,000 rows": (lambda: np.where(np.arange(2_000) % 10 < 3, -1, np.arange(2_000)), 64, 1.5),
}


@pytest.mark.parametrize("name", FEW_ROWS)
def test_a_hot_key_reaches_all_workers_however_few_the_rows(name):
    """Fewer rows than 8 V², so that an eighth of the mean load is fewer than V - 1 pairs."""
    make, workers, limit = FEW_ROWS[name]
    keys = make()
    assert len(keys) < 8 * workers**2
    ratio, distinct, pairs = counts(keys, workers)
    assert ratio <= limit
    assert pairs <= distinct + max(0.01 * distinct, len(keys) / (8 * workers), workers - 1)


def test_keys_of_less_than_a_share_take_eight_rows_a_pair_to_level():
    """The premise of the bound on imbalance, on both of its sides."""
    workers = 128
    few, many = (np.random.default_rng(0).integers(0, 500, rows) for rows in (40_000, 40 * workers**2))
    assert counts(few, workers)[0] > 1.5
    assert counts(many, workers)[0] <= 1.05


@pytest.mark.parametrize("workers", [4, 16])
def test_cold_keys_are_where_their_hash_sends_them(workers):
    """Few rows, none of them of a heavy key: nothing is split, nothing is moved."""
    keys = np.random.default_rng(0).permutation(np.repeat(np.arange(2_000), 2))
    assert Partitioner(workers).assign(keys) == Partitioner(workers, "hash").assign(keys)


def test_rows_off_their_hash_fill_workers_below_the_brim():
    """Rows that are not where their hash sends them were put on workers below 1.008 times the mean and two
    rows, all but those that explain() counts as spilled."""
    workers, keys = 32, zipf(1.2, 100_000, 300_000)
    partitioner = Partitioner(workers)
    assigned = np.array(partitioner.assign(keys))
    homes = np.array(Partitioner(workers, "hash").assign(keys))
    emitted = partitioner.explain()
    assert " 0 of 2048 buckets" in emitted
    spilled = int(re.search(r"(\d+) of them put above the brim", emitted).group(1))
    loads, above = [0] * workers, 0
    for row, (worker, home) in enumerate(zip(assigned.tolist(), homes.tolist(), strict=True), start=1):
        above += worker != home and loads[worker] >= row / workers * 1.008 + 2
        loads[worker] += 1
    assert above <= spilled <= 0.02 * len(keys)


def test_memory_does_not_follow_the_keys():
    few, many = Partitioner(32), Partitioner(32)
    few.assign(zipf(1.0, 1_000, 100_000))
    many.assign(np.arange(3_000_000))
    assert many.memory() <= few.memory() + 4_096
    assert many.memory() < 100_000


def test_windows_are_level_from_the_second_on():
    keys = zipf(1.1, 100_000, 1_000_000)
    partitioner = Partitioner(16, window=rows(100_000))
    costs = wk.partition.cost(keys, partitioner.assign(keys), workers=16, window=rows(100_000))
    windows = costs.windows.to_pylist()
    assert len(windows) == 10
    for window in windows[1:]:
        assert window["most_rows"] <= 1.02 * window["rows"] / 16
        assert window["aggregation_cost"] <= window["groups"] + max(0.01 * window["groups"], 16 * 16)
