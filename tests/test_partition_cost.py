"""Costs by the paper's equations, the selection rule, and plans for histograms."""

import datetime
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from windowkit.partition import Statistics, choose, cost, plan, rows


def test_the_example_of_section_2_2():
    """Worker 1 makes {(x, 12), (y, 123)}, worker 2 {(x, 43), (y, 1), (z, 4)}."""
    keys = ["x"] * 12 + ["y"] * 123 + ["x"] * 43 + ["y"] + ["z"] * 4
    costs = cost(keys, [0] * 135 + [1] * 48, bias=0.25)
    assert costs.imbalance == 135 - 183 / 2
    assert costs.cardinality_imbalance == 3 - 5 / 2
    # Eq. 7: rows 1 and 0; Eq. 8: keys 0 and 1; Eq. 9: 0.25 and 0.75; Eq. 10.
    assert costs.hybrid_imbalance == 0.75 - 0.5
    assert costs.aggregation_cost == 2 + 3
    assert costs.bounds == (3, 2 * 3)
    assert costs.load_ratio == 135 / 91.5
    assert costs.aggregation_ratio == 5 / 3


def test_a_key_on_four_workers_is_four_partial_results():
    """§2.4: tuples of a_x on 4 workers are 4 partial results."""
    assert cost(["a"] * 4, [0, 1, 2, 3]).aggregation_cost == 4


def test_alternating_keys_cost_two():
    """§7: keys x and y in turns on two workers."""
    costs = cost(["x", "y"] * 50, [0, 1] * 50)
    assert (costs.aggregation_cost, costs.imbalance) == (2, 0)


def naive(keys, assignment, workers, bias):
    """Eq. 1 to 10, written out."""
    loads = [assignment.count(worker) for worker in range(workers)]
    distinct = [len({k for k, w in zip(keys, assignment, strict=True) if w == v}) for v in range(workers)]

    def over(values):
        return max(values) - Fraction(sum(values), workers)

    def scaled(values):
        low, high = min(values), max(values)
        return [Fraction(value - low, high - low) if high > low else Fraction(0) for value in values]

    hybrid = [bias * a + (1 - bias) * b for a, b in zip(scaled(loads), scaled(distinct), strict=True)]
    return {
        "rows": len(keys),
        "groups": len(set(keys)),
        "most_rows": max(loads),
        "most_groups": max(distinct),
        "imbalance": float(over(loads)),
        "cardinality_imbalance": float(over(distinct)),
        "hybrid_imbalance": float(max(hybrid) - sum(hybrid) / workers),
        "aggregation_cost": sum(distinct),
        "least_aggregation_cost": len(set(keys)),
        "most_aggregation_cost": workers * len(set(keys)),
    }


@given(
    stream=st.lists(
        st.tuples(
            st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]), st.integers(0, 3), st.integers(-9, 9)
        ),
        max_size=60,
    ),
    workers=st.integers(4, 6),
    bias=st.sampled_from([0.0, 0.25, 1.0]),
)
@settings(deadline=None, max_examples=200)
def test_costs_follow_their_equations(stream, workers, bias):
    # As SQL groups: NaN is one key, and so are the zeros.
    names = ["nan" if key != key else key if key is None else abs(key) for key, _, _ in stream]
    windows = [time // 5 for _, _, time in stream]
    costs = cost(
        pa.array([key for key, _, _ in stream], pa.float64()),
        pa.array([worker for _, worker, _ in stream], pa.int64()),
        workers=workers,
        window=5,
        times=pa.array([time for _, _, time in stream], pa.int16()),
        bias=bias,
    )
    want = []
    for window in sorted(set(windows)):
        own = [row for row, of in enumerate(windows) if of == window]
        of_window = naive(
            [names[row] for row in own], [stream[row][1] for row in own], workers, Fraction(bias)
        )
        want.append({"window": window * 5, **of_window})
    assert costs.windows.to_pylist() == [pytest.approx(row) for row in want]
    least, most = costs.bounds
    assert least <= costs.aggregation_cost <= most
    assert costs.rows == len(stream)


def test_windows_are_named_by_their_start():
    times = pa.array(
        [datetime.datetime(2024, 1, 1, 0, minute) for minute in (5, 20, 40)], pa.timestamp("ms", "UTC")
    )
    costs = cost([1, 2, 3], [0, 0, 0], window=wk.tumbling("30 minutes", start_time="10 minutes"), times=times)
    starts = costs.windows["window"]
    assert starts.type == times.type
    naive_starts = [start.replace(tzinfo=None) for start in starts.to_pylist()]
    assert naive_starts == [
        datetime.datetime(2023, 12, 31, 23, 40),
        datetime.datetime(2024, 1, 1, 0, 10),
        datetime.datetime(2024, 1, 1, 0, 40),
    ]
    assert cost([1, 2, 3], [0, 0, 0], window=rows(2)).windows["window"].to_pylist() == [0, 2]


def test_no_rows():
    costs = cost(pa.array([], pa.string()), pa.array([], pa.int32()), workers=3)
    assert (costs.rows, costs.aggregation_cost, costs.imbalance, costs.load_ratio) == (0, 0, 0.0, 1.0)
    assert "aggregation cost 0" in str(costs)


def test_the_rule_of_section_7():
    # TPC-H Q1: four groups. GCM Q1: four groups, but windows of 42 rows. DEBS Q1: more groups than rows of a
    # worker's share.
    assert choose(Statistics(6_001_215, 4, 2_920_374), 32).rule == "shuffle"
    assert choose(Statistics(42, 4, 30), 32).rule == "cam"
    assert choose(Statistics(10_000_000, 8_100_000, 50), 8).rule == "cam"


@pytest.mark.parametrize(
    ("counts", "workers", "method"),
    [
        ([1_500_000] * 4, 32, "shuffle"),
        ([4] * 500_000, 8, "hash"),
        ([300_000, *[4] * 500_000], 32, "waterfill"),
        ([10**6, *[1] * 1000], 8, "waterfill"),
        ([7], 1, "hash"),
    ],
)
def test_what_is_chosen_costs_least(counts, workers, method):
    choice = choose(Statistics.of_counts(counts), workers)
    assert choice.method == method, str(choice)
    assert choice.statistics.groups == len(counts)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("workers", [8, 64])
def test_no_method_does_much_better_than_the_chosen(exponent, workers):
    weights = 1 / np.arange(1, 50_001) ** exponent
    keys = np.random.default_rng(0).choice(50_000, 300_000, p=weights / weights.sum())
    totals = {}
    for method in ("waterfill", "shuffle", "hash", "partial-key", "cam"):
        costs = cost(keys, wk.partition.Partitioner(workers, method).assign(keys), workers=workers)
        totals[method] = costs.load_ratio * costs.rows / workers + costs.aggregation_cost
    choice = choose(keys, workers)
    assert totals[choice.method] <= 1.05 * min(totals.values()), (str(choice), totals)


def test_statistics_of_keys_are_those_of_their_counts():
    keys = ["a", None, "b", "a", None, "a"]
    assert (
        Statistics.of(keys) == Statistics.of_counts(list(Counter(keys).values())) == Statistics(6, 3, 3, 14.0)
    )


@given(
    cold=st.lists(st.integers(0, 100), min_size=1, max_size=60),
    heavy=st.lists(st.tuples(st.integers(1, 3_000), st.integers(0, 59)), max_size=12),
    workers=st.integers(1, 9),
    slack=st.sampled_from([0.0, 0.005, 0.1]),
)
@settings(deadline=None, max_examples=200)
def test_a_plan_places_every_row_and_splits_little(cold, heavy, workers, slack):
    heavy = [(count, bucket % len(cold)) for count, bucket in heavy]
    loads = list(cold)
    for count, bucket in heavy:
        loads[bucket] += count
    made = plan(loads, [count for count, _ in heavy], [bucket for _, bucket in heavy], workers, slack=slack)
    want = [0] * workers
    for worker, count in zip(made.buckets.to_pylist(), cold, strict=True):
        want[worker] += count
    of_buckets = max(want)
    for parts, (count, _) in zip(made.heavy.to_pylist(), heavy, strict=True):
        assert sum(part["rows"] for part in parts) == count
        assert sum(part["share"] for part in parts) == pytest.approx(1)
        assert len({part["worker"] for part in parts}) == len(parts)
        for part in parts:
            want[part["worker"]] += part["rows"]
    assert made.loads.to_pylist() == want
    assert made.imbalance == pytest.approx(max(want) - sum(want) / workers)
    assert made.extra_aggregation_cost == sum(len(parts) - 1 for parts in made.heavy.to_pylist())
    assert made.extra_aggregation_cost <= workers - 1
    # The liquid levels what it can: nobody is above both the mean and the fullest worker's buckets.
    assert max(want) <= max(-(-sum(want) // workers), of_buckets) * (1 + slack) + 1
    # Graham 1969: a list schedule exceeds the mean by less than its largest item.
    assert of_buckets <= Fraction(sum(cold), workers) + max(cold)


def test_a_plan_for_skew_has_both_costs_low():
    weights = 1 / np.arange(1, 100_001)
    keys = np.random.default_rng(7).choice(100_000, 1_000_000, p=weights / weights.sum())
    counts = np.bincount(keys)
    buckets = (np.arange(len(counts)) * 2_654_435_761 >> 7) % 4_096
    loads = np.bincount(buckets, weights=counts, minlength=4_096).astype(int)
    heavy = np.flatnonzero(counts > 1_000_000 / 32 / 16)
    made = plan(loads, counts[heavy], buckets[heavy], 32)
    assert made.load_ratio <= 1.006
    assert made.extra_aggregation_cost <= 31


@pytest.mark.parametrize("workers", [64, 256])
def test_waterfill_is_not_chosen_where_it_cannot_level(workers):
    """Keys of less than a share, in few rows: what is chosen is measured to cost less."""
    keys = np.random.default_rng(0).integers(0, 4 * workers, 1_500 * workers // 4)

    def total(method):
        costs = cost(keys, wk.partition.Partitioner(workers, method).assign(keys), workers=workers)
        return costs.load_ratio * costs.rows / workers + costs.aggregation_cost

    choice = choose(keys, workers)
    assert choice.method != "waterfill"
    assert total(choice.method) < total("waterfill")


def test_each_reason_is_of_its_method():
    once = choose(Statistics.of_counts([1] * 1_000), 16)
    assert (once.method, once.rule) == ("shuffle", "cam")
    assert "A key has 1.0 rows on average" in once.reason
    assert "No key is heavy" not in once.reason
    even = choose(Statistics.of_counts([4] * 1_000_000), 8)
    assert even.method == "hash"
    assert "the hash alone spreads the keys evenly" in even.reason
