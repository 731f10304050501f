"""Queries as dicts that JSON holds."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk
from support.language import NAMES, any_aggregate, any_window

QUERY = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
FORM: dict[str, Any] = {
    "version": 1,
    "by": ["k"],
    "time": "t",
    "windows": ["tumbling(10)"],
    "aggs": ["sum(v)"],
    "max_windows": 10**9,
}


def test_the_form_is_this_one() -> None:
    assert QUERY.to_dict() == FORM
    assert wk.Query.from_dict(FORM) == QUERY


@given(
    st.lists(NAMES, max_size=3),
    NAMES | st.just(wk.PROCESSING_TIME),
    st.lists(any_window(), min_size=1, max_size=3, unique_by=lambda each: each.name),
    st.lists(any_aggregate(), min_size=1, max_size=3, unique_by=lambda each: each.name),
    st.integers(1, 2**63) | st.none(),
)
def test_what_json_holds_is_the_query(
    by: list[str], time: str, windows: list[wk.Window], aggs: list[wk.Aggregate], most: int | None
) -> None:
    try:
        query = wk.query(by=by, time=time, windows=windows, aggs=aggs, max_windows=most)
    except wk.InvalidValue:
        return  # Two columns of the result have one name.
    again = wk.Query.from_dict(json.loads(json.dumps(query.to_dict())))
    assert again == query
    assert type(again.time) is type(query.time)


def test_what_another_program_writes_runs() -> None:
    text = """
        {"version": 1, "by": [], "time": "t", "max_windows": null,
         "windows": ["sliding(20, 10) as recent"], "aggs": ["count(*) as n", "max(v) where ok as most"]}
    """
    table = pa.table({"t": [1, 12], "v": [5, 7], "ok": [True, False]})
    rows = wk.Query.from_dict(json.loads(text)).run(table).to_pylist()
    assert sorted((row["window_start"], row["n"], row["most"]) for row in rows) == [
        (-10, 1, 5),
        (0, 2, 5),
        (10, 1, None),
    ]


@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        ({"version": 2}, wk.InvalidValue, "form: it is of version 2; this windowkit reads version 1"),
        ({"version": True}, wk.InvalidValue, "form: it is of version True"),
        (
            {"where": "x"},
            wk.InvalidValue,
            "form: the key 'where' is unknown; required keys are 'version', 'by', ",
        ),
        ({"window": []}, wk.InvalidValue, r"optional keys are 'emit', .*; did you mean 'windows'\?"),
        ({"by": "k"}, wk.InvalidType, "by: 'k' is a str; in a form it is a list of strings"),
        ({"windows": [3]}, wk.InvalidType, "windows: 3 is an int; in a form it is a string"),
        ({"windows": []}, wk.InvalidValue, "windows: "),
        ({"windows": ["tumbling(0)"]}, wk.InvalidValue, "0"),
        ({"aggs": ["total(v)"]}, wk.InvalidValue, "total"),
        ({"time": 3}, wk.InvalidType, "time: 3 is an int"),
        ({"max_windows": 1.5}, wk.InvalidType, "max_windows: 1.5"),
    ],
)
def test_other_forms_are_refused(changed: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        wk.Query.from_dict({**FORM, **changed})


def test_a_form_is_whole() -> None:
    for name in FORM:
        with pytest.raises(
            wk.InvalidValue, match="version None" if name == "version" else f"key '{name}' is missing"
        ):
            wk.Query.from_dict({key: value for key, value in FORM.items() if key != name})
    with pytest.raises(
        wk.InvalidType, match=r"form: \[\] is a list; in a form it is a mapping; required keys are"
    ):
        wk.Query.from_dict([])  # type: ignore[arg-type]


def test_code_cannot_be_written_down() -> None:
    class Never(wk.ContextAware):
        def open(self) -> Any:
            raise NotImplementedError

    query = wk.query(by=[], time="t", windows=wk.custom(Never()), aggs=wk.count())
    with pytest.raises(wk.InvalidType, match=r"windows: custom\(Never\) is user-defined"):
        query.to_dict()
