"""Each partitioner against its algorithm in the paper, written out row by row in plain Python.

The candidates of a key come from the documented function; everything else is computed here: loads, exact
sets, HyperLogLog registers with a running estimate, normalised scores.
"""

from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from windowkit import _native

COUNTING = ["cm", "am", "cam", "lm"]


class Sets:
    """Exact cardinalities: the naive structure of §3.2.1."""

    def __init__(self):
        self.keys = defaultdict(set)

    def contains(self, worker, key):
        return key in self.keys[worker]

    def update(self, worker, key):
        self.keys[worker].add(key)

    def estimate(self, worker):
        return Fraction(len(self.keys[worker]))


class Registers:
    """HyperLogLog with 2^12 registers and the optimistic trial update of §3.2.2.

    The running estimate (Cohen 2014; Ting 2014) adds, when a register changes, the inverse of the probability
    that a new key changes one: 4096 over the sum of 2^-rank.
    """

    def __init__(self):
        self.ranks = defaultdict(lambda: [0] * 4096)
        self.estimates = defaultdict(float)

    @staticmethod
    def place(hashed):
        rest = format(hashed & (2**52 - 1), "052b") + "1"
        return hashed >> 52, rest.index("1") + 1

    def contains(self, worker, hashed):
        register, rank = self.place(hashed)
        return rank <= self.ranks[worker][register]

    def update(self, worker, hashed):
        if not self.contains(worker, hashed):
            ranks = self.ranks[worker]
            register, rank = self.place(hashed)
            self.estimates[worker] += 4096 / float(sum(Fraction(1, 2**old) for old in ranks))
            ranks[register] = rank

    def estimate(self, worker):
        return self.estimates[worker]


def normalised(values):
    """Eq. 7 and 8; 0 where all are equal."""
    least, most = min(values), max(values)
    return [Fraction(value - least, most - least) if most > least else Fraction(0) for value in values]


def naive(method, keys, places, workers, *, counts=None, bias=Fraction(1, 2)):
    """Algorithms 2 to 5, FLD, PK: the worker of each row."""
    counts = counts or Sets()
    loads, assigned = [0] * workers, []
    for key, candidates in zip(keys, places, strict=True):
        if method == "hash":
            worker = candidates[0]
        elif method == "partial-key":
            worker = min(candidates, key=lambda c: loads[c])
        elif method == "cm":
            worker = min(candidates, key=counts.estimate)
        elif method in ("am", "cam"):
            known = [c for c in candidates if counts.contains(c, key)]
            weight = counts.estimate if method == "am" else lambda c: loads[c]
            worker = known[0] if known else min(candidates, key=weight)
        else:
            rows = normalised(loads)
            distinct = normalised([round(counts.estimate(c)) for c in range(workers)])
            worker = min(candidates, key=lambda c: bias * rows[c] + (1 - bias) * distinct[c])
        counts.update(worker, key)
        loads[worker] += 1
        assigned.append(worker)
    return assigned


def skewed(rows, distinct, seed=0):
    weights = 1 / np.arange(1, distinct + 1)
    return np.random.default_rng(seed).choice(distinct, rows, p=weights / weights.sum())


@given(
    keys=st.lists(st.integers(0, 30), max_size=120),
    workers=st.integers(1, 9),
    choices=st.integers(1, 4),
    method=st.sampled_from(["hash", "partial-key", *COUNTING]),
    bias=st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    seed=st.integers(0, 2**64 - 1),
)
@settings(deadline=None, max_examples=200)
def test_exact_methods_follow_their_algorithms(keys, workers, choices, method, bias, seed):
    choices = min(choices, workers)
    column = pa.array(keys, pa.int64())
    places = wk.partition.candidates(column, workers, candidates=choices, seed=seed).to_pylist()
    want = naive(method, keys, places, workers, bias=Fraction(bias))
    partitioner = wk.partition.Partitioner(
        workers, method, candidates=choices, cardinality="exact", bias=bias, seed=seed
    )
    assert partitioner.assign(column).to_pylist() == want
    assert partitioner.loads() == [want.count(worker) for worker in range(workers)]
    if method in COUNTING:
        pairs = set(zip(keys, want, strict=True))
        assert partitioner.cardinalities() == [
            sum(w == worker for _, w in pairs) for worker in range(workers)
        ]


@pytest.mark.parametrize("method", COUNTING)
def test_exact_methods_on_skew(method):
    keys = skewed(20_000, 3_000)
    places = wk.partition.candidates(keys, 16, candidates=3).to_pylist()
    partitioner = wk.partition.Partitioner(16, method, candidates=3, cardinality="exact")
    assert partitioner.assign(keys).to_pylist() == naive(method, keys.tolist(), places, 16)


@pytest.mark.parametrize("method", COUNTING)
def test_sketched_methods_follow_their_algorithms(method):
    """With 4096 registers a worker and 3000 keys, dozens of trial updates say yes for keys never seen."""
    keys = skewed(6_000, 3_000)
    table = pa.table({"key": keys})
    hashes = pa.array(_native.partition_hashes(table, 5)).to_pylist()
    places = wk.partition.candidates(keys, 4, seed=5).to_pylist()
    registers = Registers()
    want = naive(method, hashes, places, 4, counts=registers)
    partitioner = wk.partition.Partitioner(4, method, seed=5)
    assert partitioner.assign(keys).to_pylist() == want
    estimates = [registers.estimates[worker] for worker in range(4)]
    assert partitioner.cardinalities() == pytest.approx(estimates, rel=1e-9)


@pytest.mark.parametrize("method", COUNTING)
def test_a_filter_hardly_differs_from_exact_sets(method):
    """Where HyperLogLog decays: ten times as many keys as registers."""
    keys = np.random.default_rng(1).permutation(np.repeat(np.arange(40_000), 3))
    costs = {}
    for cardinality in ("exact", "filter", "hll"):
        assigned = wk.partition.Partitioner(8, method, cardinality=cardinality).assign(keys)
        costs[cardinality] = wk.partition.cost(keys, assigned, workers=8)
    exact, filtered = costs["exact"], costs["filter"]
    assert filtered.aggregation_cost == pytest.approx(exact.aggregation_cost, rel=0.01)
    assert filtered.load_ratio == pytest.approx(exact.load_ratio, rel=0.02)
    if method in ("am", "cam"):
        assert exact.aggregation_cost == 40_000
        assert costs["hll"].aggregation_cost > 1.05 * 40_000


def test_shuffle_is_round_robin():
    partitioner = wk.partition.Partitioner(3, "shuffle", seed=1)
    workers = partitioner.assign(["a", "b", "a", None, "c", "c", "a"]).to_pylist()
    assert all((b - a) % 3 == 1 for a, b in pairwise(workers))
    assert sorted(partitioner.loads()) == [2, 2, 3]


def test_equal_keys_have_equal_candidates_whatever_their_type():
    text = ["a", None, "b", "a"]
    plain = wk.partition.candidates(pa.array(text), 50, candidates=3)
    for other in (
        pa.array(text, pa.large_string()),
        pa.array(text, pa.string_view()),
        pa.array(text).dictionary_encode(),
        pa.chunked_array([text[:1], text[1:]]),
        pa.array(["x", *text], pa.string())[1:],
    ):
        assert wk.partition.candidates(other, 50, candidates=3).to_pylist() == plain.to_pylist()
    floats = wk.partition.candidates(
        pa.array([0.0, -0.0, float("nan"), -float("nan"), None]), 1000
    ).to_pylist()
    assert floats[0] == floats[1]
    assert floats[2] == floats[3]
    assert len({tuple(place) for place in floats}) == 3


def test_candidates_are_spread_evenly_and_independently():
    places = np.array(wk.partition.candidates(np.arange(200_000), 10, candidates=2).to_pylist())
    both = np.histogram2d(places[:, 0], places[:, 1], bins=10)[0]
    # 100 cells of 2000 on average; five standard deviations.
    assert abs(both - 2_000).max() < 5 * 2_000**0.5


@pytest.mark.parametrize(
    ("long", "short"),
    [("hash", "FLD"), ("shuffle", "SH"), ("partial-key", "PK"), ("cam", "cAM"), ("lm", "LM")],
)
def test_the_papers_names_are_understood(long, short):
    assert wk.partition.Partitioner(4, short).method == long
