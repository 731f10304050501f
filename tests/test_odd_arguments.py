"""Whatever the functions of the package are given, what they raise is a `WindowKitError`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from datetime import timedelta
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk
from support.forged import HEAD, sealed

TABLE: Final = pa.table({"k": ["a", "b"], "t": [1, 12], "v": [1.0, None], "b": [True, False]})
LONG: Final = 10**5000


def nested(depth: int) -> dict[str, Any]:
    """Return the form of a trigger that is within others."""
    form: dict[str, Any] = {"rows": 1}
    for _ in range(depth):
        form = {"or": [{"and": [form, {"rows": 2}]}, {"on": "b"}]}
    return form


KINDS: Final[dict[str, list[Any]]] = {
    "numbers": [0, 1, -1, True, 2**31, 2**63, -(2**70), 10**400, LONG, -LONG, 0.5, 1e300, -0.0],
    "no numbers": [float("nan"), float("inf"), np.float32("nan"), np.int64(3), np.array([1, 2]), 1j],
    "text": ["", "v", "t", "k", "10 seconds", "1 month", "-1 s", "\ud800", "a\0b", "x" * 20_000, "9" * 5_000],
    "lengths": [
        timedelta.max,
        timedelta(0),
        timedelta(days=-1),
        np.timedelta64("NaT"),
        np.timedelta64(1, "Y"),
    ],
    "containers": [[], [[]], ["v", "v"], ("a", None), {"v": "v"}, {1: LONG}, set(), b"v", [LONG], ["\ud800"]],
    "values": [
        *(wk.tumbling(10), wk.session("5 seconds"), wk.sliding("10 rows", "1 row")),
        *(wk.sum("v"), wk.count(), wk.sum("v").over("1 row"), wk.rows(3), wk.on("b"), wk.every("1 second")),
        *(wk.at(0.5), wk.PROCESSING_TIME, pc.field("v"), pa.int64(), pa.schema([("t", pa.int64())])),
    ],
    "data": [
        TABLE,
        pd.DataFrame([[1, 2, 3]], columns=["t", "t", "k"]),
        pd.DataFrame({"k": ["\ud800"], "t": [1]}),
        pd.DataFrame({"k": pd.arrays.SparseArray([1]), "t": [1]}),
        pd.DataFrame({"k": [10**30], "t": [1]}),
        pa.array([1]),
    ],
    "others": [None, object(), int, len, lambda values: values, ..., nested(3), nested(600)],
}
"""Odd values of each kind, and some that fit, by which calls get further."""

VALUES: Final = st.sampled_from(sorted(KINDS)).flatmap(lambda kind: st.sampled_from(KINDS[kind]))

QUERY: Final = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
ROLLING: Final = wk.rolling(by="k", time="t", aggs=wk.sum("v").over("1 row"))
JOIN: Final = wk.join(by="k", left_time="t", right_time="t", within=3)
DISTINCT: Final = wk.distinct("k", time="t", within=3)


SIDE: Final = pa.table({"kkkk": ["a"], "tttt": [1]})


def stream_of(kind: str) -> tuple[Any, Any]:
    """Return an operator that has had a row, and what it is restored with."""
    if kind == "query":
        op = wk.query(by="kkkk", time="tttt", windows=wk.tumbling(5), aggs=wk.count()).operator()
        op.push(SIDE)
        return op, op.queries
    if kind == "join":
        join = wk.join(by="kkkk", left_time="tttt", right_time="tttt", within=3)
        joined = join.operator(SIDE, SIDE)
        joined.push_left(SIDE)
        return joined, join
    distinct = wk.distinct("kkkk", time="tttt", within=3)
    duplicates = distinct.operator(SIDE)
    duplicates.push(SIDE)
    return duplicates, distinct


def methods(name: str, made: Callable[[], Any]) -> dict[str, Callable[[], Callable[..., Any]]]:
    """Return what makes the public methods of a value that is made anew for each call."""
    found = [each for each, _ in inspect.getmembers(made(), inspect.ismethod) if not each.startswith("_")]
    # Pictures have errors of the library that draws them, and take long.
    return {f"{name}.{each}": partial(attribute, made, each) for each in found if each != "plot"}


def attribute(made: Callable[[], Any], name: str) -> Any:
    return getattr(made(), name)


def functions() -> dict[str, Callable[[], Callable[..., Any]]]:
    """Return what makes the public functions, and those of the values that they make."""
    found: dict[str, Callable[[], Callable[..., Any]]] = {}
    for module in (wk, wk.kernels, wk.partition):
        prefix = module.__name__.removeprefix("windowkit").lstrip(".")
        for name in module.__all__:
            if inspect.isfunction(getattr(module, name)):
                found[f"{prefix}.{name}".lstrip(".")] = partial(getattr, module, name)
    for value in (QUERY, ROLLING, JOIN, DISTINCT):
        found |= methods(type(value).__name__, partial(copy, value))
    for kind in ("query", "join", "distinct"):
        found |= methods(f"operator of a {kind}", partial(operator_of, kind))
    found |= methods("kernels.Window", partial(wk.kernels.Window, "max", pa.float64()))
    found |= methods("Partitioner", partial(wk.partition.Partitioner, 2, "hash"))
    return found | methods("HyperLogLog", wk.HyperLogLog)


def operator_of(kind: str) -> Any:
    return stream_of(kind)[0]


FUNCTIONS: Final = functions()


@st.composite
def calls(draw: st.DrawFn, function: Callable[..., Any]) -> tuple[list[Any], dict[str, Any]]:
    """Draw arguments that the signature of a function allows."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        is_needed = parameter.default is parameter.empty
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += draw(st.lists(VALUES, max_size=2))
        elif parameter.kind is parameter.VAR_KEYWORD or not (is_needed or draw(st.booleans())):
            continue
        elif parameter.kind is parameter.POSITIONAL_ONLY or (
            parameter.kind is parameter.POSITIONAL_OR_KEYWORD and not named
        ):
            positional.append(draw(VALUES))
        else:
            named[name] = draw(VALUES)
    return positional, named


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@given(data=st.data())
def test_what_a_function_raises_is_a_windowkit_error(name: str, data: st.DataObject) -> None:
    function = FUNCTIONS[name]()
    positional, named = data.draw(calls(function))
    with suppress(wk.WindowKitError):
        function(*positional, **named)


@pytest.mark.parametrize("kind", ["query", "join", "distinct"])
@pytest.mark.parametrize("name", [b"kkkk", b"tttt"])
@pytest.mark.parametrize("forged", [b"k\0kk", b"\xff\xfekk"])
def test_a_snapshot_with_a_name_that_no_schema_has_is_refused(kind: str, name: bytes, forged: bytes) -> None:
    op, values = stream_of(kind)
    whole = op.snapshot()
    body, found = whole[HEAD:], 0
    while (found := body.find(name, found + 1)) >= 0:
        with pytest.raises(wk.InvalidValue):
            type(op).restore(sealed(whole, body[:found] + forged + body[found + len(name) :]), values)
