"""Queries written down: in dicts that JSON holds, with windows and aggregates in their text forms.

This is what programs in other languages can write, and what an archive of queries can hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.aggregation import Aggregate, Framed
from windowkit.language.aggregation import parse as aggregate_of
from windowkit.language.checks import as_given, suggested, text, whole, wrong_type
from windowkit.language.durations import plain
from windowkit.language.emission import Emission, emit
from windowkit.language.events import read as read_trigger
from windowkit.language.expressions import refuse_expressions
from windowkit.language.fills import form_of as form_of_fill
from windowkit.language.frames import UNBOUNDED, UNBOUNDED_ROWS
from windowkit.language.processing import PROCESSING_TIME, ProcessingTime
from windowkit.language.windows import Window
from windowkit.language.windows import parse as window_of

__all__ = ["form_of_join", "form_of_query", "read", "read_distinct", "read_join", "read_rolling"]
__all__ += ["write", "write_distinct", "write_join", "write_rolling"]

VERSION: Final = 1
"""Of the forms. A later one reads all earlier ones."""

FIELDS: Final = ("by", "time", "windows", "aggs", "max_windows")
OPTIONAL: Final = ("emit", "window_columns", "weight", "fill")
POLICY: Final = ("early", "refinement")
OF_RESULTS: Final = ("at_most", "later", "complete")
ROLLING: Final = ("by", "time", "rolling")
JOIN: Final = ("by", "left_time", "right_time", "within", "windows", "how", "closed", "suffix")
WEIGHTS: Final = ("left_weight", "right_weight")
CHOICE: Final = ("left_columns", "right_columns")
DISTINCT: Final = ("by", "time", "within")
PER: Final = ("per",)
PARTS: Final = ("agg", "before", "after", "closed", "tail", "alias")
WITHOUT_TEXT: Final = "which a dict does not hold; compute the column first, and give its name"
STRING: Final = "in a form it is a string"

Part = TypeVar("Part", Window, Aggregate)


def write(query: Any) -> dict[str, Any]:
    """Return a query as a dict; see `windowkit.Query.to_dict`."""
    windowed = (column for each in query.windows for column in each.columns)
    read = [*query.by, query.time, *windowed, *(column for each in query.aggs for column in each.inputs)]
    refuse_expressions([*read, query.weight or ""], "query", WITHOUT_TEXT)
    refuse_code("windows", [window for window in query.windows if window.is_user_defined], "query")
    refuse_code("aggs", [each for each in query.aggs if each.user is not None], "query")
    return form_of_query(query)


def form_of_query(query: Any) -> dict[str, Any]:
    """Return what tells a query from others, a user's own functions and windows by their names."""
    return {
        "version": VERSION,
        "by": list(query.by),
        "time": None if isinstance(query.time, ProcessingTime) else query.time,
        "windows": list(map(str, query.windows)),
        "aggs": [str(each) if each.user is None else f"user {each}" for each in query.aggs],
        "max_windows": query.max_windows,
        # Absent by default: such forms are those that earlier releases read.
        **({} if query.emit is None else {"emit": query.emit.form()}),
        **({} if query.window_columns == "flat" else {"window_columns": query.window_columns}),
        **({} if query.weight is None else {"weight": query.weight}),
        **({} if query.fill is None else {"fill": form_of_fill(query.fill)}),
    }


def read(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `windowkit.query` that `write` wrote."""
    check_version(form)
    form = mapping("form", form, ("version", *FIELDS), OPTIONAL)
    return {
        "by": strings(form, "by"),
        "time": PROCESSING_TIME if form["time"] is None else form["time"],
        "windows": [window_of(each) for each in strings(form, "windows")],
        "aggs": [aggregate_of(each) for each in strings(form, "aggs")],
        "max_windows": form["max_windows"],
        "emit": None if form.get("emit") is None else emission_of(form["emit"]),
        "window_columns": form.get("window_columns", "flat"),
        "weight": form.get("weight"),
        "fill": form.get("fill"),
    }


def write_rolling(by: Sequence[str], time: str, aggs: Sequence[Framed]) -> dict[str, Any]:
    """Return a rolling aggregation as a dict; see `windowkit.Rolling.to_dict`."""
    read = [*by, time, *(column for each in aggs for column in each.inputs)]
    refuse_expressions(read, "rolling", WITHOUT_TEXT)
    refuse_code("aggs", [each for each in aggs if each.aggregate.user is not None], "value")
    return {"version": VERSION, "by": list(by), "time": time, "rolling": list(map(form_of, aggs))}


def read_rolling(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `windowkit.rolling` that `write_rolling` wrote."""
    check_version(form)
    form = mapping("form", form, ("version", *ROLLING))
    parts = listed("rolling", form["rolling"], "mappings")
    return {"by": form["by"], "time": form["time"], "aggs": list(map(framed_of, parts))}


def write_join(join: Any) -> dict[str, Any]:
    """Return a join as a dict; see `windowkit.Join.to_dict`."""
    own = join.windows
    refuse_code("windows", [] if own is None or not own.is_user_defined else [own], "join")
    return form_of_join(join)


def form_of_join(join: Any) -> dict[str, Any]:
    """Return what tells a join from others, a user's own window by its name."""
    return {
        "version": VERSION,
        "by": dict(zip(join.left_by, join.right_by, strict=True)),
        "left_time": join.left_time,
        "right_time": join.right_time,
        "within": None if join.within is None else list(map(plain, join.within)),
        "windows": None if join.windows is None else str(join.windows),
        "how": join.how,
        "closed": None if join.within is None else join.closed,
        "suffix": join.suffix,
        "left_columns": None if join.left_columns is None else list(join.left_columns),
        "right_columns": None if join.right_columns is None else list(join.right_columns),
        **{name: weight for name in WEIGHTS if (weight := getattr(join, name)) is not None},
    }


def read_join(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `windowkit.join` that `write_join` wrote."""
    check_version(form)
    form = mapping("form", form, ("version", *JOIN, *CHOICE), WEIGHTS)
    within, windows = form["within"], form["windows"]
    return {
        **{name: form[name] for name in (*JOIN, *CHOICE)},
        **{name: form[name] for name in WEIGHTS if name in form},
        "within": tuple(within) if isinstance(within, list) else within,
        "windows": None if windows is None else window_of(text("windows", windows, STRING)),
    }


def write_distinct(distinct: Any) -> dict[str, Any]:
    """Return what removes duplicates as a dict; see `windowkit.Distinct.to_dict`."""
    return {
        "version": VERSION,
        "by": list(distinct.by),
        "time": distinct.time,
        "within": plain(distinct.within),
        **({} if distinct.per == "first" else {"per": distinct.per}),
    }


def read_distinct(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `windowkit.distinct` that `write_distinct` wrote."""
    check_version(form)
    form = mapping("form", form, ("version", *DISTINCT), PER)
    return {name: form[name] for name in (*DISTINCT, *PER) if name in form}


def form_of(framed: Framed) -> dict[str, Any]:
    """Return an aggregate over a frame as a dict."""
    frame = framed.frame
    unbounded = UNBOUNDED_ROWS if frame.by_rows else UNBOUNDED
    ends = {"before": frame.before, "after": frame.after}
    return {
        "agg": str(framed.aggregate),
        **{side: unbounded if end is None else plain(end) for side, end in ends.items()},
        "closed": frame.closed,
        "tail": None if frame.tail is None else plain(frame.tail),
        "alias": framed.label,
    }


def framed_of(form: object) -> Framed:
    """Return the aggregate over a frame that `form_of` wrote."""
    part = mapping("rolling", form, PARTS)
    aggregate = aggregate_of(text("agg", part["agg"], STRING))
    over = aggregate.over(
        before=part["before"], after=part["after"], closed=part["closed"], tail=part["tail"]
    )
    return over if part["alias"] is None else over.alias(part["alias"])


def refuse_code(argument: str, defined: Sequence[object], what: str) -> None:
    """Refuse what users define: forms hold no code."""
    for each in defined:
        raise InvalidType(
            f"{argument}: {each} is user-defined, and code cannot be written down; pickle the {what} instead"
        )


def check_version(form: object) -> None:
    """Refuse a form of another version, whichever keys it has."""
    version = form.get("version") if isinstance(form, Mapping) else VERSION
    if whole(version) != VERSION:
        raise InvalidValue(
            f"form: it is of version {as_given(version):.60}; this windowkit reads version {VERSION}"
        )


def mapping(
    argument: str, form: object, keys: Sequence[str], optional: Sequence[str] = ()
) -> Mapping[str, Any]:
    """Return a mapping that has these keys, perhaps some of the optional ones, and no others."""
    allowed = f"required keys are {', '.join(map(repr, keys))}"
    if optional:
        allowed += f"; optional keys are {', '.join(map(repr, optional))}"
    if not isinstance(form, Mapping):
        raise wrong_type(argument, form, f"in a form it is a mapping; {allowed}")
    known = (*keys, *optional)
    for key in form:
        if key not in known:
            meant = suggested(key, known) if isinstance(key, str) else ""
            raise InvalidValue(f"{argument}: the key {as_given(key):.60} is unknown; {allowed}{meant}")
    for key in keys:
        if key not in form:
            raise InvalidValue(f"{argument}: the key {key!r} is missing; {allowed}")
    return form


def listed(argument: str, given: object, of: str) -> Sequence[Any]:
    """Return a list in a form."""
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise wrong_type(argument, given, f"in a form it is a list of {of}")
    return given


def strings(form: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of strings in a form."""
    return [text(name, each, STRING) for each in listed(name, form[name], "strings")]


def emission_of(form: object) -> Emission:
    """Return the policy of a form that `Emission.form` wrote."""
    form = mapping("emit", form, POLICY, OF_RESULTS)
    early = None if form["early"] is None else read_trigger(form["early"])
    named = {name: form[name] for name in OF_RESULTS if name in form}
    return emit(early, form["refinement"], **named)
