"""Bad input: which argument, what was given, what is allowed; and nothing changes."""

import pyarrow as pa
import pytest

import windowkit as wk
from windowkit.partition import Partitioner, Statistics, candidates, choose, cost, plan, rows


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"workers": 0},
            wk.InvalidValue,
            "workers: 0 is out of range; it is a number of workers, an int from 1 to 65536",
        ),
        ({"workers": 2**16 + 1}, wk.InvalidValue, "workers: 65537"),
        ({"workers": -1}, wk.InvalidValue, "workers: -1"),
        ({"workers": 2.0}, wk.InvalidType, "workers: 2.0 is a float"),
        ({"workers": True}, wk.InvalidType, "workers: True is a bool"),
        (
            {"method": "magic"},
            wk.InvalidValue,
            "method: 'magic' is unknown; allowed are 'waterfill', 'shuffle'",
        ),
        ({"method": None}, wk.InvalidType, "method: None"),
        ({"method": "pk", "candidates": 5}, wk.InvalidValue, "candidates: 5 for 4 workers"),
        ({"candidates": 0}, wk.InvalidValue, "candidates: 0"),
        ({"cardinality": "loglog"}, wk.InvalidValue, "cardinality: 'loglog' is unknown; allowed are 'exact'"),
        ({"bias": 1.5}, wk.InvalidValue, "bias: 1.5"),
        ({"bias": -0.1}, wk.InvalidValue, "bias: -0.1"),
        ({"bias": float("nan")}, wk.InvalidValue, "bias: nan"),
        ({"bias": "1"}, wk.InvalidType, "bias: '1' is a str"),
        ({"seed": -1}, wk.InvalidValue, "seed: -1"),
        ({"seed": 2**64}, wk.InvalidValue, "seed: 18446744073709551616"),
        ({"window": "1 month"}, wk.InvalidType, "1 month"),
        ({"window": 0}, wk.InvalidValue, "size"),
        ({"window": wk.sliding(10, 5)}, wk.InvalidType, "window: sliding"),
        ({"window": wk.session(10)}, wk.InvalidType, "window: session"),
        ({"window": 1.5}, wk.InvalidType, "window: 1.5"),
    ],
)
def test_parameters(arguments, error, message):
    with pytest.raises(error, match=message.replace("(", r"\(")):
        Partitioner(**{"workers": 4, **arguments})


def test_the_most_there_can_be():
    partitioner = Partitioner(2**16, "partial-key", candidates=2**16 // 2**12, seed=2**64 - 1)
    assert len(partitioner.assign([1, 2, 3])) == 3
    assert len(Partitioner(2**16).assign([1, 2, 3])) == 3
    assert Partitioner(1, "cam", candidates=1).assign([5, None]).to_pylist() == [0, 0]


@pytest.mark.parametrize("method", ["waterfill", "shuffle", "hash", "cam"])
@pytest.mark.parametrize(
    "keys",
    [
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        pa.array([{"m": [("a", 1)]}], pa.struct([("m", pa.map_(pa.string(), pa.int64()))])),
        pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]),
    ],
    ids=["map", "struct of map", "union"],
)
def test_types_without_a_hash(method, keys):
    with pytest.raises(wk.InvalidType, match=r"keys: a column of type .* cannot be hashed"):
        Partitioner(4, method).assign(keys)
    with pytest.raises(wk.InvalidType, match="keys"):
        cost(keys, [0])


@pytest.mark.parametrize(
    ("keys", "error"), [(5, wk.InvalidType), ("abc", wk.InvalidType), ([object()], wk.InvalidType),
                        (pa.table({}), wk.InvalidValue), ({}, wk.InvalidValue), ({1, 2}, wk.InvalidType),
                        (None, wk.InvalidType)],
)  # fmt: skip
def test_what_is_no_column(keys, error):
    with pytest.raises(error, match="keys"):
        Partitioner(4).assign(keys)


@pytest.mark.parametrize(
    ("window", "times", "error", "message"),
    [
        (None, [1, 2], wk.InvalidValue, "times: they were given, but there is no window"),
        (10, None, wk.InvalidValue, "times are missing"),
        (rows(5), [1, 2], wk.InvalidValue, "times: they were given, but the window counts rows"),
        (10, [1, None], wk.InvalidValue, "times: there are nulls"),
        (10, [1], wk.InvalidValue, "times: 1 times for 2 keys"),
        (10, ["a", "b"], wk.InvalidType, "times: they are string; allowed are timestamps"),
        (10, pa.array([1, 2], pa.timestamp("s")), wk.InvalidType, "times: they count seconds"),
        ("1 minute", [1, 2], wk.InvalidType, "times: they are integers"),
        (
            "1 millisecond",
            pa.array([1, 2], pa.timestamp("s")),
            wk.InvalidValue,
            "window: it is finer than times",
        ),
        (10, [25, 5], wk.InvalidValue, "times: row 1 goes back"),
    ],
)
def test_windows_and_times(window, times, error, message):
    partitioner = Partitioner(4, "cam", window=window)
    before = partitioner.snapshot()
    with pytest.raises(error, match=message):
        partitioner.assign(["a", "b"], times)
    assert partitioner.snapshot() == before


def test_a_dict_is_columns_and_never_its_names():
    columns = {"a": pa.array([1, 1, 2]), "b": ["x", "x", "y"]}
    by_dict = Partitioner(64, "hash").assign(columns)
    assert by_dict == Partitioner(64, "hash").assign(pa.table(columns))
    with pytest.raises(wk.InvalidValue, match=r"keys: columns have different lengths \('a': 1, 'b': 2\)"):
        Partitioner(4).assign({"a": [1], "b": [1, 2]})
    with pytest.raises(wk.InvalidType, match=r"keys\['a'\]: an int is not a column"):
        Partitioner(4).assign({"a": 5})


def test_several_arrays_are_told_how_to_be_columns():
    with pytest.raises(wk.InvalidType, match="keys: a list of arrays is not a column; several columns are"):
        Partitioner(4).assign([pa.array([1, 2]), pa.array([3, 4])])
    with pytest.raises(wk.InvalidType, match="keys: a set has no order of rows"):
        cost({1, 2}, [0, 0])


@pytest.mark.parametrize(
    "later",
    [pa.array(["1"]), pa.array([1.0]), pa.table({"a": [1], "b": [1]}), pa.array([1], pa.timestamp("s"))],
    ids=["text", "floats", "two columns", "times"],
)
@pytest.mark.parametrize("method", ["waterfill", "shuffle"])
def test_keys_stay_of_one_type(method, later):
    partitioner = Partitioner(4, method)
    partitioner.assign(pa.array([None]))
    partitioner.assign([1, 2, 3])
    before = partitioner.snapshot()
    for restored in (partitioner, Partitioner.restore(before)):
        with pytest.raises(wk.InvalidType, match=r"keys: they are \[.*\], but were \[Int\]"):
            restored.assign(later)
        assert restored.snapshot() == before
    # Of other types with the same values and hashes.
    partitioner.assign(pa.array([1], pa.uint8()))
    partitioner.assign(pa.array([1, None]).dictionary_encode())
    partitioner.reset()
    partitioner.assign(later)


@pytest.mark.parametrize("method", ["partial-key", "cm", "am", "cam", "lm"])
def test_one_worker_needs_no_other_arguments(method):
    assert Partitioner(1, method).assign([5, None]).to_pylist() == [0, 0]
    assert candidates([5], 1).to_pylist() == [[0]]
    assert candidates([5], 3).to_pylist()[0] == candidates([5], 3, candidates=2).to_pylist()[0]
    with pytest.raises(wk.InvalidValue, match="candidates: 2"):
        Partitioner(1, method, candidates=2)


def test_the_module_shows_what_it_offers():
    assert dir(wk.partition) == sorted(wk.partition.__all__)
    assert all(Partitioner(4, method).method == method for method in wk.partition.METHODS)


def test_names_are_understood_in_any_case():
    assert Partitioner(4, "Partial_Key").method == "partial-key"
    assert "cardinality='hll'" in repr(Partitioner(4, "cAM", cardinality="HLL"))


@pytest.mark.parametrize(
    ("window", "shown"),
    [
        ("90 seconds", "tumbling(1 minute 30 seconds)"),
        (wk.tumbling("1 hour", start_time="1 minute"), "tumbling(1 hour, start_time=1 minute)"),
        (10, "tumbling(10)"),
        (rows(5), "Rows(size=5)"),
    ],
)
def test_windows_are_shown_as_they_are_given(window, shown):
    partitioner = Partitioner(4, window=window)
    assert f"window={shown}," in repr(partitioner)
    with pytest.raises(wk.InvalidValue, match="it was taken with window=") as caught:
        Partitioner.restore(partitioner.snapshot(), window="2 days")
    assert "nanoseconds" not in str(caught.value)
    Partitioner.restore(partitioner.snapshot(), window=window)


def test_a_window_that_goes_back_changes_nothing():
    partitioner = Partitioner(4, "lm", window=10)
    partitioner.assign([1, 2, 3], [5, 12, 11])
    before = partitioner.snapshot()
    later = pa.chunked_array([[13, 14], [15, 9]])
    with pytest.raises(wk.InvalidValue, match="goes back to a window before the current one"):
        partitioner.assign(pa.array([1, 2, 3, 4]), later)
    assert partitioner.snapshot() == before
    assert len(partitioner.assign([1], [10])) == 1


@pytest.mark.parametrize("method", ["waterfill", "shuffle", "hash", "partial-key"])
def test_methods_that_count_no_keys_say_so(method):
    with pytest.raises(wk.InvalidValue, match="counts no distinct keys"):
        Partitioner(4, method).cardinalities()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"assignment": [0]}, wk.InvalidValue, "assignment: 1 workers for 2 keys"),
        ({"assignment": [0, -1]}, wk.InvalidValue, "assignment: row 1 has worker -1"),
        (
            {"assignment": [0, 4], "workers": 4},
            wk.InvalidValue,
            "assignment: row 1 has worker 4; allowed is 0 to 3",
        ),
        ({"assignment": [0, None]}, wk.InvalidValue, "assignment: 1 rows have no worker"),
        ({"assignment": [0.0, 1.0]}, wk.InvalidType, "assignment: it is double"),
        ({"assignment": [0, 2**40]}, wk.InvalidValue, "assignment"),
        ({"workers": 0}, wk.InvalidValue, "workers: 0"),
        ({"bias": 2}, wk.InvalidValue, "bias: 2 is out of range"),
        ({"window": 5}, wk.InvalidValue, "times are missing"),
        ({"times": [1, 2]}, wk.InvalidValue, "window: there is none"),
        ({"window": 5, "times": [1]}, wk.InvalidValue, "times: 1 times for"),
    ],
)
def test_cost(arguments, error, message):
    with pytest.raises(error, match=message):
        cost(["a", "b"], **{"assignment": [0, 1], **arguments})


@pytest.mark.parametrize(
    ("statistics", "message"),
    [
        (Statistics(10, 11, 1), "statistics"),
        (Statistics(10, 2, 11), "statistics"),
        (Statistics(10, 3, 3), "statistics"),
        (Statistics(10, 2, 5, 1.0), "statistics"),
        (Statistics(-1, 2, 5), "rows: -1"),
        (Statistics(10, 0, 0), "statistics"),
    ],
)
def test_impossible_statistics(statistics, message):
    with pytest.raises(wk.InvalidValue, match=message):
        choose(statistics, 4)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"bucket_loads": []}, wk.InvalidValue, "bucket"),
        ({"bucket_loads": [-1, 5]}, wk.InvalidValue, "bucket_loads: -1"),
        ({"bucket_loads": [1.5]}, wk.InvalidType, "bucket_loads: it is double"),
        ({"heavy_counts": [11]}, wk.InvalidValue, "heavy_counts: the heavy keys of bucket 1 have more rows"),
        ({"heavy_counts": [0]}, wk.InvalidValue, "heavy_counts: key 0 has no rows"),
        ({"heavy_counts": [1, 2]}, wk.InvalidValue, "heavy_buckets: 1 are given with 2"),
        ({"heavy_buckets": [2]}, wk.InvalidValue, "heavy_buckets: key 0 is in bucket 2"),
        ({"workers": 0}, wk.InvalidValue, "workers"),
        ({"slack": -1}, wk.InvalidValue, "slack"),
    ],
)
def test_plan(arguments, error, message):
    given = {"bucket_loads": [10, 10], "heavy_counts": [5], "heavy_buckets": [1], "workers": 2, **arguments}
    with pytest.raises(error, match=message):
        plan(**given)


@pytest.mark.parametrize("size", [0, -5])
def test_rows(size):
    with pytest.raises(wk.InvalidValue, match="size"):
        rows(size)


def test_candidates():
    with pytest.raises(wk.InvalidValue, match="candidates: 5"):
        candidates([1], 4, candidates=5)
