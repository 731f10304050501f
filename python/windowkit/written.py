"""Queries written down: in dicts that JSON holds, with windows and aggregates in their text forms.

This is what programs in other languages can write, and what an archive of queries can hold.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, TypeVar

from windowkit.aggregation import Aggregate
from windowkit.aggregation import parse as aggregate_of
from windowkit.checks import a_type
from windowkit.durations import rows
from windowkit.emission import Emission, at, emit, every, on
from windowkit.errors import InvalidType, InvalidValue
from windowkit.processing import PROCESSING_TIME, ProcessingTime
from windowkit.triggers import Trigger
from windowkit.windows import Window
from windowkit.windows import parse as window_of

__all__ = ["read", "write"]

VERSION: Final = 1
"""Of the form. A later one reads all earlier ones."""

FIELDS: Final = ("by", "time", "windows", "aggs", "max_windows")
OPTIONAL: Final = ("emit", "window_columns", "weight")
POLICY: Final = ("early", "refinement")
WAITS: Final = ("at_most", "later")
LEAVES: Final[Mapping[str, Callable[..., Trigger]]] = {"rows": rows, "every": every, "on": on, "at": at}
COMBINED: Final[Mapping[str, Callable[[Trigger, Trigger], Trigger]]] = {
    "or": operator.or_,
    "and": operator.and_,
    "then": Trigger.then,
}
TRIGGERS: Final = (*LEAVES, *COMBINED, "repeat")

Part = TypeVar("Part", Window, Aggregate)


def write(
    by: Sequence[str],
    time: str,
    windows: Sequence[Window],
    aggs: Sequence[Aggregate],
    max_windows: int | None,
    emit: Emission | None,
    window_columns: str,
    weight: str | None,
) -> dict[str, Any]:
    """Return a query as a dict; see `windowkit.Query.to_dict`."""
    own = [window for window in windows if window.is_user_defined]
    own_aggs = [each for each in aggs if each.user is not None]
    for what, each in [*(("windows", each) for each in own), *(("aggs", each) for each in own_aggs)]:
        raise InvalidType(
            f"{what}: {each} is user-defined, and code cannot be written down; pickle the query instead"
        )
    return {
        "version": VERSION,
        "by": list(by),
        "time": None if isinstance(time, ProcessingTime) else time,
        "windows": list(map(str, windows)),
        "aggs": list(map(str, aggs)),
        "max_windows": max_windows,
        # Absent by default: such forms are those that earlier releases read.
        **({} if emit is None else {"emit": emit.form()}),
        **({} if window_columns == "struct" else {"window_columns": window_columns}),
        **({} if weight is None else {"weight": weight}),
    }


def read(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `windowkit.query` that `write` wrote."""
    if not isinstance(form, Mapping):
        raise InvalidType(f"form: it is {a_type(form)}; expected a mapping, as Query.to_dict() returns it")
    version = form.get("version")
    if isinstance(version, bool) or version != VERSION:
        raise InvalidValue(f"form: it is of version {version!r}; this windowkit reads version {VERSION}")
    unknown = [key for key in form if key not in ("version", *FIELDS, *OPTIONAL)]
    missing = [name for name in FIELDS if name not in form]
    if unknown or missing:
        which = f"has {unknown[0]!r}" if unknown else f"lacks {missing[0]!r}"
        raise InvalidValue(
            f"form: it {which}; it has version, {', '.join(FIELDS)}, perhaps {' and '.join(OPTIONAL)}, and "
            "nothing else"
        )
    return {
        "by": texts(form, "by"),
        "time": PROCESSING_TIME if form["time"] is None else form["time"],
        "windows": [window_of(text) for text in texts(form, "windows")],
        "aggs": [aggregate_of(text) for text in texts(form, "aggs")],
        "max_windows": form["max_windows"],
        "emit": None if form.get("emit") is None else emission_of(form["emit"]),
        "window_columns": form.get("window_columns", "struct"),
        "weight": form.get("weight"),
    }


def texts(form: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of texts in a form."""
    given = form[name]
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise InvalidType(f"{name}: {given!r} is {a_type(given)}; in a form it is a list of texts")
    for text in given:
        if not isinstance(text, str):
            raise InvalidType(f"{name}: {text!r} is {a_type(text)}; in a form it is a text")
    return list(given)


def emission_of(form: object) -> Emission:
    """Return the policy of a form that `Emission.form` wrote."""
    allowed = "in a form it has early and refinement, perhaps at_most and later, and nothing else"
    if not isinstance(form, Mapping):
        raise InvalidType(f"emit: {form!r:.60} is {a_type(form)}; {allowed}")
    if form.keys() - set(WAITS) != set(POLICY):
        raise InvalidValue(f"emit: it has {sorted(map(str, form))}; {allowed}")
    early = None if form["early"] is None else trigger_of(form["early"])
    return emit(early, form["refinement"], at_most=form.get("at_most"), later=form.get("later"))


def trigger_of(form: object) -> Trigger:
    """Return the trigger of a form: a mapping from its name to what it has."""
    if not isinstance(form, Mapping):
        raise InvalidType(
            f"early: {form!r:.60} is {a_type(form)}; in a form, a trigger is a mapping of one name"
        )
    named = {name: value for name, value in form.items() if not (name == "of" and "every" in form)}
    if len(named) != 1 or (kind := next(iter(named))) not in TRIGGERS:
        raise InvalidValue(
            f"early: {form!r:.60} is not a trigger; it has one of the keys {', '.join(TRIGGERS)} "
            "(every also takes of)"
        )
    given = named[kind]
    if kind == "repeat":
        return trigger_of(given).repeat()
    if kind in LEAVES:
        return LEAVES[kind](given, *(form[name] for name in form.keys() - named.keys()))
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise InvalidType(
            f"early: {given!r:.60} is {a_type(given)}; in a form, {kind!r} has a list of triggers"
        )
    if len(given) < 2:
        raise InvalidValue(f"early: {given!r:.60} is given for {kind!r}; it has at least two triggers")
    return reduce(COMBINED[kind], map(trigger_of, given))
