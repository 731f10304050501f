"""Queries written down: in dicts that JSON holds, with windows and aggregates in their text forms.

This is what programs in other languages can write, and what an archive of queries can hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from windowkit.aggregation import Aggregate
from windowkit.aggregation import parse as aggregate_of
from windowkit.checks import a_type
from windowkit.errors import InvalidType, InvalidValue
from windowkit.processing import PROCESSING_TIME, ProcessingTime
from windowkit.windows import Custom, Window
from windowkit.windows import parse as window_of

__all__ = ["read", "write"]

VERSION: Final = 1
"""Of the form. A later one reads all earlier ones."""

FIELDS: Final = ("by", "time", "windows", "aggs", "max_windows")

Part = TypeVar("Part", Window, Aggregate)


def write(
    by: Sequence[str],
    time: str,
    windows: Sequence[Window],
    aggs: Sequence[Aggregate],
    max_windows: int | None,
) -> dict[str, Any]:
    """Return a query as a dict; see `windowkit.Query.to_dict`."""
    own = [window for window in windows if isinstance(window, Custom)]
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
    }


def read(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `windowkit.query` that `write` wrote."""
    if not isinstance(form, Mapping):
        raise InvalidType(f"form: it is {a_type(form)}; expected a mapping, as Query.to_dict() returns it")
    version = form.get("version")
    if isinstance(version, bool) or version != VERSION:
        raise InvalidValue(f"form: it is of version {version!r}; this windowkit reads version {VERSION}")
    unknown = [key for key in form if key not in ("version", *FIELDS)]
    missing = [name for name in FIELDS if name not in form]
    if unknown or missing:
        which = f"has {unknown[0]!r}" if unknown else f"lacks {missing[0]!r}"
        raise InvalidValue(f"form: it {which}; it has version, {', '.join(FIELDS)}, and nothing else")
    return {
        "by": texts(form, "by"),
        "time": PROCESSING_TIME if form["time"] is None else form["time"],
        "windows": [window_of(text) for text in texts(form, "windows")],
        "aggs": [aggregate_of(text) for text in texts(form, "aggs")],
        "max_windows": form["max_windows"],
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
