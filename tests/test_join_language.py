"""Joins and duplicates as values: dicts that JSON holds, what they say of themselves, results in batches."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk
from support.language import NAMES, any_window

JOIN: dict[str, Any] = {
    "version": 1,
    "by": {"src": "dst", "k": "k"},
    "left_time": "t",
    "right_time": "u",
    "within": ["2 minutes", "0 seconds"],
    "windows": None,
    "how": "left",
    "closed": "left",
    "suffix": "_other",
    "left_columns": None,
    "right_columns": ["v"],
}
DISTINCT = {"version": 1, "by": ["id"], "time": "t", "within": 5}
SIDE = pa.schema({"k": pa.string(), "t": pa.timestamp("s"), "v": pa.int64()})


@pytest.mark.parametrize(
    "window",
    [
        wk.session("1 hour"),
        wk.session("1 hour", at_most="1 day"),
        wk.session("gap"),
        wk.tumbling(rows=3),
        wk.sliding("1 hour", "3 rows"),
        wk.punctuation("mark"),
        wk.between("from", "to"),
        wk.global_window(),
    ],
    ids=str,
)
def test_windows_that_are_not_known_before_all_rows_are_refused_at_once(window: wk.Window) -> None:
    with pytest.raises(wk.InvalidType, match=r"^windows: which rows share a window of .* allowed are bands"):
        wk.join(by="k", left_time="t", right_time="t", windows=window)


def test_the_forms_are_these() -> None:
    join = wk.join(
        by={"src": "dst", "k": "k"},
        left_time="t",
        right_time="u",
        within=("2 minutes", "0 seconds"),
        how="left",
        closed="left",
        suffix="_other",
        right_columns="v",
    )
    assert join.to_dict() == JOIN
    assert wk.Join.from_dict(JOIN) == join
    assert wk.Join.from_dict({**JOIN, "by": ["k"], "within": "1 day", "closed": None}) == wk.join(
        by="k",
        left_time="t",
        right_time="u",
        within="1 day",
        how="left",
        suffix="_other",
        right_columns=["v"],
    )
    assert wk.distinct("id", time="t", within=5).to_dict() == DISTINCT
    assert wk.Distinct.from_dict(DISTINCT) == wk.distinct("id", time="t", within=5)


LENGTHS = st.integers(0, 2**62)


@given(
    st.lists(st.tuples(NAMES, NAMES), max_size=3, unique_by=(lambda pair: pair[0], lambda pair: pair[1])),
    st.tuples(NAMES, NAMES),
    st.tuples(LENGTHS, LENGTHS)
    | st.tuples(LENGTHS, LENGTHS).map(lambda of: tuple(map(wk.Duration, of)))
    | any_window(),
    st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]),
    st.none() | st.sampled_from(["both", "left", "right", "neither"]),
    st.text(st.characters(exclude_characters="\0", codec="utf-8")),
    st.none() | st.lists(NAMES, min_size=1, max_size=3, unique=True),
)
def test_what_json_holds_is_the_join(
    by: list[tuple[str, str]],
    times: tuple[str, str],
    within: Any,
    how: str,
    closed: str | None,
    suffix: str,
    columns: list[str] | None,
) -> None:
    if isinstance(within, wk.Window) and (
        within.is_endless or not within.is_fixed or within.ends_with_stream
    ):
        with pytest.raises(
            (wk.InvalidType, wk.InvalidValue), match=r"^windows: .*; (allowed are bands|give it)"
        ):
            wk.join(by="k", left_time="t", right_time="t", windows=within)
        return
    condition = {"windows": within} if isinstance(within, wk.Window) else {"within": within, "closed": closed}
    chosen = {} if how in ("semi", "anti") else {"right_columns": columns}
    left_time, right_time = times
    join = wk.join(
        by=dict(by),
        left_time=left_time,
        right_time=right_time,
        how=how,
        suffix=suffix,
        left_columns=columns,
        **condition,
        **chosen,
    )
    assert wk.Join.from_dict(json.loads(json.dumps(join.to_dict()))) == join
    assert str(join).startswith("by ")
    assert join.explain().split("\n")[0] == f"join {join}".replace("\n", r"\n")


@given(st.lists(NAMES, max_size=3, unique=True), NAMES, LENGTHS | LENGTHS.map(wk.Duration))
def test_what_json_holds_is_the_distinct(by: list[str], time: str, within: Any) -> None:
    distinct = wk.distinct(by, time=time, within=within)
    assert wk.Distinct.from_dict(json.loads(json.dumps(distinct.to_dict()))) == distinct
    assert distinct.explain().split("\n")[0] == f"distinct {distinct}".replace("\n", r"\n")


def test_what_is_no_form_is_refused() -> None:
    for form, kind in ((JOIN, wk.Join), (DISTINCT, wk.Distinct)):
        with pytest.raises(wk.InvalidValue, match="form: it is of version 2"):
            kind.from_dict({**form, "version": 2})
        with pytest.raises(wk.InvalidValue, match="form: the key 'within' is missing; required keys are"):
            kind.from_dict({name: value for name, value in form.items() if name != "within"})
        with pytest.raises(wk.InvalidValue, match=r"form: the key 'withn' is unknown.*did you mean 'within'"):
            kind.from_dict({**form, "withn": 5})
        with pytest.raises(wk.InvalidType, match="form: 5 is an int; in a form it is a mapping"):
            kind.from_dict(5)  # type: ignore[arg-type]
    with pytest.raises(wk.InvalidValue, match="how: 'outer'"):
        wk.Join.from_dict({**JOIN, "how": "outer"})
    with pytest.raises(wk.InvalidValue, match="within: both are given"):
        wk.Join.from_dict({**JOIN, "windows": "tumbling(1 hour)", "closed": None})
    with pytest.raises(wk.InvalidType, match="windows: 5 is an int; in a form it is a string"):
        wk.Join.from_dict({**JOIN, "within": None, "windows": 5, "closed": None})
    with pytest.raises(wk.InvalidType, match=r"within: \['x'\] is a list"):
        wk.Distinct.from_dict({**DISTINCT, "within": ["x"]})


def test_text_for_readers_and_notebooks() -> None:
    join = wk.join(by={"a, b": "k"}, left_time="t", right_time="t", windows=wk.tumbling("1 hour"), how="semi")
    assert str(join) == "by `a, b` = k over t and t: in one of the windows tumbling(1 hour), semi"
    assert "<td><code>`a, b` = k</code></td>" in join._repr_html_()
    assert "in one window with a left row" in join.explain()
    assert "until the other side is complete beyond the end of their last window" in join.explain()
    band = wk.join(by=[], left_time="t", right_time="u", within=(0, 3), closed="right", left_columns="t")
    assert str(band) == "by nothing over t and u: within (0, 3), closed right, inner"
    assert "from the time of a left row to 3 after it, with the last end only" in band.explain()
    assert "columns of the left side" in band._repr_html_()
    distinct = wk.distinct([], time="t", within="1 day")
    assert str(distinct) == "by nothing over t: within 1 day"
    assert "<th>within</th><td><code>1 day</code></td>" in distinct._repr_html_()
    assert (
        distinct.explain()
        .splitlines()[1]
        .startswith("duplicates: rows at most 1 day after another row, or at")
    )


def test_explain_has_the_columns_of_the_result() -> None:
    join = wk.join(by="k", left_time="t", right_time="t", within="1 hour")
    assert join.explain(SIDE, SIDE).splitlines()[-2:] == ["  t_right: timestamp[s]", "  v_right: int64"]
    with pytest.raises(wk.InvalidValue, match="right: left is given alone; explain takes both sides"):
        join.explain(SIDE)
    with pytest.raises(wk.InvalidValue, match="left: right is given alone"):
        join.explain(right=SIDE)
    with pytest.raises(wk.UnknownColumn, match="by, of the right side"):
        join.explain(SIDE, pa.schema({"t": pa.timestamp("s")}))
    distinct = wk.distinct("k", time="t", within="1 hour")
    assert distinct.explain(SIDE).splitlines()[-3:] == ["  k: string", "  t: timestamp[s]", "  v: int64"]
    with pytest.raises(wk.UnknownColumn, match="by: no column 'k'"):
        distinct.explain(pa.schema({"t": pa.timestamp("s")}))


def test_distinct_has_batches_and_a_schema() -> None:
    table = pa.table({"k": ["a", None, "a", None], "t": [3, 1, 1, 9], "v": [1, 2, 3, 4]})
    distinct = wk.distinct("k", time="t", within=5)
    reader = distinct.batches(table, threads=1, validate=True)
    assert reader.schema == distinct.schema(table) == distinct.schema(table.schema) == table.schema
    assert reader.read_all().to_pylist() == distinct.run(table).to_pylist()
    assert distinct.run(table)["v"].to_pylist() == [2, 3, 4]
    assert distinct.batches(table.slice(0, 0)).read_all().num_rows == 0
    with pytest.raises(wk.UnknownColumn, match="no column 'k'"):
        distinct.schema(pa.schema({"t": pa.int64()}))
    with pytest.raises(wk.InvalidValue, match="metrics: 5 is given without a Spark DataFrame"):
        distinct.run(table, metrics=5)
