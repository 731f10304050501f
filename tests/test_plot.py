"""`windowkit.plot`: points where the costs are, and clear errors; no picture is compared with another."""

import matplotlib
import pyarrow as pa
import pytest

import windowkit as wk
from support.programs import program

matplotlib.use("Agg")

KEYS = pa.array(["hot"] * 700 + [f"key {row % 90}" for row in range(300)])


@pytest.fixture
def axes():
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    yield axes
    pyplot.close(figure)


def points(axes):
    """Return the excess over 1 of both ratios, of each point."""
    markers = [line for line in axes.get_lines() if line.get_marker() == "o"]
    return [(line.get_xdata()[0], line.get_ydata()[0]) for line in markers]


def labels(axes):
    return [text.get_text() for text in axes.texts]


def test_points_are_where_the_costs_are(axes):
    # 8 rows on 2 workers, 6 and 2: 1.5 times the mean; keys a, b on one, a on the other: 3 for 2.
    keys = pa.array(["a", "a", "a", "a", "b", "b", "a", "a"])
    costs = wk.partition.cost(keys, pa.array([0] * 6 + [1] * 2), workers=2)
    assert wk.plot.partitioning({"mine": costs}, ax=axes) is axes
    assert points(axes) == [(pytest.approx(0.5), pytest.approx(0.5))]
    assert "mine" in labels(axes)
    assert axes.get_title(loc="left") == "8 rows of 2 keys over 2 workers"


def test_better_is_right_and_up(axes):
    wk.plot.partitioning(KEYS, workers=4, methods=["shuffle", "hash", "waterfill"], ax=axes)
    left, right = axes.get_xlim()
    low, high = axes.get_ylim()
    assert left > right
    assert low > high
    shuffle, hashed, waterfill = points(axes)
    assert shuffle[0] < hashed[0]
    assert shuffle[1] > hashed[1]
    assert waterfill[0] < hashed[0]
    assert waterfill[1] < shuffle[1]
    assert all(left >= x >= right and low >= y >= high for x, y in points(axes))


def test_every_method_is_named_and_methods_at_one_place_share_a_label(axes):
    wk.plot.partitioning(KEYS, workers=1, candidates=1, ax=axes)
    assert set(points(axes)) == {(1e-4, 1e-4)}
    assert labels(axes)[-1].split(", ") == list(wk.partition.METHODS)


def test_windows_and_no_rows(axes):
    times = pa.array(range(1000))
    wk.plot.partitioning(KEYS, workers=4, window=wk.tumbling(100), times=times, ax=axes)
    assert "1,000 rows" in axes.get_title(loc="left")
    wk.plot.partitioning(KEYS[:0], workers=4, ax=axes)
    assert axes.get_title(loc="left") == "0 rows of 0 keys over 4 workers"


def test_the_picture_can_be_drawn(axes, tmp_path):
    wk.plot.partitioning(KEYS, workers=4, ax=axes)
    axes.figure.savefig(tmp_path / "quadrants.png")
    assert (tmp_path / "quadrants.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"keys": KEYS}, wk.InvalidValue, "workers: None is given with keys"),
        ({"keys": KEYS, "workers": 0}, wk.InvalidValue, "workers: 0"),
        ({"keys": KEYS, "workers": 2, "methods": []}, wk.InvalidValue, "methods: the list is empty"),
        ({"keys": KEYS, "workers": 2, "methods": "hash"}, wk.InvalidType, "methods: 'hash' is a str"),
        ({"keys": KEYS, "workers": 2, "methods": ["best"]}, wk.InvalidValue, "method: 'best'"),
        ({"keys": {}}, wk.InvalidValue, "keys: the mapping is empty"),
        ({"keys": {"a": 1}}, wk.InvalidType, "keys: 'a' is mapped to an int"),
    ],
)
def test_what_cannot_be_drawn_is_refused(axes, arguments, kind, message):
    with pytest.raises(kind, match=message):
        wk.plot.partitioning(**arguments, ax=axes)


def test_costs_of_different_inputs_are_refused(axes):
    one = wk.partition.cost(KEYS, pa.array([0] * 1000), workers=2)
    other = wk.partition.cost(KEYS, pa.array([0] * 1000), workers=3)
    with pytest.raises(wk.InvalidValue, match="one picture is of one input"):
        wk.plot.partitioning({"a": one, "b": other}, ax=axes)
    with pytest.raises(wk.InvalidValue, match="workers: 2 is given with costs"):
        wk.plot.partitioning({"a": one}, workers=2, ax=axes)


def test_without_matplotlib_the_error_says_what_to_install():
    printed = program(
        """
        import sys
        sys.modules["matplotlib"] = None
        import windowkit as wk
        try:
            wk.plot.partitioning([1, 2], workers=2)
        except ImportError as error:
            assert isinstance(error, wk.WindowKitError)
            print(error)
        """
    )
    assert "pip install 'windowkit[plot]'" in printed
