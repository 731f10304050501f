"""`Query.plot`: rows, windows and results where they belong; no picture is compared with another."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import matplotlib
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import windowkit as wk
from support.programs import program

matplotlib.use("Agg")

NAN = float("nan")
TABLE = pa.table(
    {
        "k": ["a", "b", "a", "a", "a", None],
        "t": [1, 5, 12, 3, None, 7],
        "v": [2.0, 3.0, 5.0, None, 1.0, 8.0],
    }
)
QUERY = wk.query(by="k", time="t", windows=wk.sliding(10, 5), aggs=[wk.sum("v"), wk.min("k"), wk.count()])


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def segments(axes: Any) -> list[tuple[float, float, float]]:
    """Return start, end and height of the lines of a panel."""
    return sorted(
        (left, right, height)
        for lines in axes.collections
        for (left, height), (right, _) in lines.get_segments()
    )


def test_panels_have_the_rows_the_windows_and_the_result_of_a_key() -> None:
    figure = QUERY.plot(TABLE, key="a")
    rows, windows, sums, counts = figure.axes
    assert [axes.get_ylabel() for axes in figure.axes] == ["v", "", "sum(v)", "count(1)"]
    assert rows.get_title(loc="left") == "k 'a'"
    assert counts.get_xlabel() == "t"
    assert rows.lines[0].get_xdata().tolist() == [1, 12, 3]
    np.testing.assert_equal(rows.lines[0].get_ydata(), np.array([2.0, 5.0, NAN]))
    own = TABLE.filter(pa.array([True, False, True, True, True, False]))
    result = QUERY.run(own).to_pylist()
    extents = [(row["window_start"], row["window_end"]) for row in result]
    assert sorted(segment[:2] for segment in segments(windows)) == sorted(extents)
    expected = [(*extent, row["sum(v)"]) for extent, row in zip(extents, result, strict=True)]
    assert segments(sums) == sorted(expected)
    expected = [(*extent, row["count(1)"]) for extent, row in zip(extents, result, strict=True)]
    assert segments(counts) == sorted(expected)


def test_windows_of_a_type_that_overlap_are_below_each_other() -> None:
    windows = [wk.sliding(10, 5), wk.tumbling(10), wk.session(4)]
    query = wk.query(by="k", time="t", windows=windows, aggs=wk.count())
    drawn = query.plot(TABLE, key="a").axes[1]
    assert [label.get_text() for label in drawn.get_yticklabels()] == [each.name for each in windows]
    found = segments(drawn)
    assert len(found) == query.run(TABLE.filter(pa.compute.equal(TABLE["k"], "a"))).num_rows
    for start, end, lane in found:
        assert not [other for other in found if other[2] == lane and start < other[0] < end]
    assert len({lane for _, _, lane in found}) == 4


def test_a_stretch_has_its_rows_and_the_windows_that_reach_into_it() -> None:
    """Whose values are those of all their rows."""
    drawn = QUERY.plot(TABLE, key="a", start=3, end=10)
    assert drawn.axes[0].lines[0].get_xdata().tolist() == [3]
    assert segments(drawn.axes[3]) == [(-5, 5, 2), (0, 10, 2), (5, 15, 1)]
    assert segments(QUERY.plot(TABLE, key="a", start=15).axes[3]) == [(10, 20, 1)]


@pytest.mark.parametrize("key", [None, "a"])
def test_keys_may_be_null_or_the_only_one(key: str | None) -> None:
    of_key = pa.compute.fill_null(pa.compute.equal(TABLE["k"], "a"), False)
    rows = TABLE.filter(of_key if key else TABLE["k"].is_null())
    assert QUERY.plot(rows).axes[0].get_title(loc="left") == f"k {key!r}"


def test_keys_of_every_kind() -> None:
    data = pa.table(
        {"d": pa.array(["x", "y", "x"]).dictionary_encode(), "f": [NAN, NAN, 1.0], "t": [1, 2, 3]}
    )
    query = wk.query(by=["d", "f"], time="t", windows=wk.tumbling(10), aggs=wk.count())
    figure = query.plot(data, key={"f": NAN, "d": "x"})
    assert figure.axes[0].lines[0].get_xdata().tolist() == [1]
    assert query.plot(data, key=("y", NAN)).axes[0].lines[0].get_xdata().tolist() == [2]
    with pytest.raises(wk.InvalidValue, match="or a tuple of 2 values in that order"):
        query.plot(data, key=("y",))
    assert figure.axes[0].get_ylabel() == "rows"
    everything = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count()).plot(data)
    assert everything.axes[0].get_title(loc="left") == "all rows"


DAY = dt.datetime(2026, 5, 1)


@pytest.mark.parametrize(
    ("times", "size", "label"),
    [
        (pa.array([DAY, DAY + dt.timedelta(hours=5)], pa.timestamp("ns")), "2 hours", "t"),
        (
            pa.array([DAY, DAY + dt.timedelta(hours=5)], pa.timestamp("us", "Asia/Tokyo")),
            "2 hours",
            "t (UTC)",
        ),
        (pa.array([DAY.date(), DAY.date() + dt.timedelta(days=5)]), "2 days", "t"),
        (pa.array([DAY, DAY + dt.timedelta(days=5)], pa.date64()), "2 days", "t"),
        (pa.array([5, 500], pa.duration("s")), "2 minutes", "t (s)"),
        (pa.array([5, 500], pa.int16()), 120, "t"),
    ],
)
def test_times_of_every_type(times: pa.Array, size: Any, label: str, tmp_path: Any) -> None:
    values = pa.array([Decimal("1.5"), None])
    query = wk.query(by=[], time="t", windows=wk.tumbling(size), aggs=wk.sum("v"))
    figure = query.plot(pa.table({"t": times, "v": values}))
    assert figure.axes[-1].get_xlabel() == label
    assert len(segments(figure.axes[1])) == 2
    assert len(segments(figure.axes[2])) == 1
    figure.savefig(tmp_path / "windows.png")
    assert (tmp_path / "windows.png").stat().st_size > 5_000


@pytest.mark.parametrize("window", [wk.global_window(), wk.tumbling(rows=2), wk.punctuation("mark")])
def test_windows_that_rows_determine(window: wk.Window) -> None:
    data = pa.table({"t": [1, 2, 3], "mark": [True, False, True]})
    query = wk.query(by=[], time="t", windows=window, aggs=wk.count())
    assert len(segments(query.plot(data).axes[1])) == query.run(data).num_rows


def test_expressions_and_a_figure_of_ones_own() -> None:
    from matplotlib.figure import Figure

    own = Figure()
    double = (pl.col("v") * 2).alias("double")
    query = wk.query(
        by=pl.col("k").str.to_uppercase(), time="t", windows=wk.tumbling(10), aggs=wk.sum(double)
    )
    assert query.plot(pl.from_arrow(TABLE), key="A", figure=own) is own
    assert [axes.get_ylabel() for axes in own.axes] == ["double", "", "sum(double)"]


def test_no_rows() -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
    assert segments(query.plot(TABLE.slice(0, 0)).axes[1]) == []


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({}, wk.InvalidValue, "data has 3 keys; a picture is of one of them, for instance key='a'"),
        ({"key": "z"}, wk.InvalidValue, "key: data has no rows of k 'z'"),
        ({"key": 3}, wk.InvalidType, "key: 3 is not a value of column 'k'"),
        ({"key": {"x": 1}}, wk.InvalidValue, r"key: it has \['x'\]"),
        ({"key": "a", "start": "noon"}, wk.InvalidType, "integer, and so is where a stretch of it starts"),
        ({"key": "a", "end": 2.5}, wk.InvalidType, "end: 2.5 is a float"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        QUERY.plot(TABLE, **options)


def test_other_data_and_queries_are_refused() -> None:
    with pytest.raises(wk.InvalidValue, match="key: 'a' is given for a query without keys"):
        wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count()).plot(TABLE, key="a")
    many = pa.table({"t": range(1000)})
    with pytest.raises(wk.InvalidValue, match="1,000 windows would be drawn; a picture has at most 500"):
        wk.query(by=[], time="t", windows=wk.tumbling(1), aggs=wk.count()).plot(many)
    with pytest.raises(wk.UnknownColumn, match="'v'"):
        QUERY.plot(TABLE.drop_columns("v"), key="a")
    with pytest.raises(wk.InvalidValue, match="PROCESSING_TIME is given for plot"):
        wk.query(by=[], time=wk.PROCESSING_TIME, windows=wk.tumbling("1 day"), aggs=wk.count()).plot(TABLE)


def test_a_spark_dataframe_is_refused() -> None:
    class DataFrame:
        __module__ = "pyspark.sql.classic.dataframe"

    with pytest.raises(wk.InvalidType, match=r"rows in this process, as those of df\.where"):
        QUERY.plot(DataFrame())


def test_matplotlib_is_imported_only_when_a_picture_is_drawn() -> None:
    printed = program(
        """
        import sys
        import windowkit as wk
        assert "matplotlib" not in sys.modules
        sys.modules["matplotlib"] = None
        query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count())
        try:
            query.plot(None)
        except wk.plot.MissingMatplotlibError as error:
            print(error)
        """
    )
    assert "run pip install 'windowkit[plot]'" in printed


def test_a_stretch_without_length_is_refused() -> None:
    for start, end in ((10, 3), (5, 5)):
        with pytest.raises(wk.InvalidValue, match=f"end: {end} is not after start, {start}"):
            QUERY.plot(TABLE, key="a", start=start, end=end)
