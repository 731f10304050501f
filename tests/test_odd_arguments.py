"""Whatever the functions of the package are given, what they raise is a `WindowKitError`."""

from __future__ import annotations

import enum
import inspect
import os
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.forged import HEAD, sealed
from windowkit import panes


class MineError(Exception):
    """What functions of a user raise, which is raised as it is."""


def raising(*_: object, **__: object) -> Any:
    raise MineError


RAISING: Final = {
    f"__{name}__": raising
    for name in (
        *(
            "eq",
            "ne",
            "lt",
            "gt",
            "hash",
            "repr",
            "str",
            "len",
            "bool",
            "index",
            "int",
            "float",
            "iter",
            "next",
        ),
        *("contains", "getitem", "call", "format", "fspath", "add", "mul", "neg", "array__", "enter"),
    )
}


class Raising:
    """Each of its methods raises."""


class RaisingText(str):
    """Text whose methods raise."""


class RaisingNumber(int):
    """A number whose methods raise."""


class RaisingDict(dict[str, str]):
    """A dictionary whose methods raise."""


class RaisingList(list[str]):
    """A list whose methods raise."""


for each in (Raising, RaisingText, RaisingNumber, RaisingDict, RaisingList):
    for method, function in RAISING.items():
        setattr(each, method, function)


class RaisingArrow:
    """What hands over something that is no Arrow data, or nothing."""

    def __init__(self, *handed: object) -> None:
        self.handed = handed

    def hand(self, requested_schema: object = None) -> Any:
        return self.handed[0] if self.handed else raising()

    __arrow_c_stream__ = __arrow_c_array__ = __arrow_c_schema__ = hand


class RaisingZone(tzinfo):
    """A time zone that knows nothing."""

    utcoffset = dst = tzname = raising


class OddZone(tzinfo):
    """A time zone whose answers are no answers."""

    def utcoffset(self, _: datetime | None) -> Any:
        return timedelta(days=3)

    def tzname(self, _: datetime | None) -> Any:
        return 7

    dst = utcoffset


class Colour(enum.Enum):
    RED = "v"


class Numbered(enum.IntEnum):
    ONE = 1


@dataclass
class Named:
    name: str
    number: int


def recursive_list() -> list[Any]:
    made: list[Any] = ["v"]
    made.append(made)
    return made


def recursive_dict() -> dict[str, Any]:
    made: dict[str, Any] = {"rows": 1}
    made["or"] = [made, made]
    return made


def deep_list(depth: int) -> list[Any]:
    made: list[Any] = ["v"]
    for _ in range(depth):
        made = [made]
    return made


def closed_file() -> Any:
    with open(os.devnull) as file:
        return file


class Extension(pa.ExtensionType):
    """A type of a user."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "windowkit.odd")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, _: pa.DataType, __: bytes) -> Extension:
        return cls()


ODD_COLUMNS: Final[list[pa.Array]] = [
    pa.ExtensionArray.from_storage(Extension(), pa.array([1, 2])),
    pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]),
    pa.UnionArray.from_dense(
        pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1]), pa.array([2])]
    ),
    pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array([1])),
    pa.array([[1], [2]], pa.list_view(pa.int64())),
    pa.DictionaryArray.from_arrays(
        pa.array([0, 0]), pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["a"]))
    ),
    pa.array([None, None], pa.null()),
    pa.array([1, 2, 3, 4], pa.int64())[1:3],
    pa.array([Decimal(1), None], pa.decimal256(76, 0)),
    pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
    pa.array([1, None], pa.time64("ns")),
    pa.array([{}, {}], pa.struct([])),
    pa.array([[], None], pa.list_(pa.list_(pa.null()))),
    pa.array([b"", b""], pa.binary(0)),
    pa.array(["a", "b"], pa.string_view()),
]


def odd(column: pa.Array) -> pa.Table:
    """Return a table of two rows, each of whose columns is odd."""
    return pa.table([column] * 4, names=["k", "t", "v", "b"])


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
    "missing": [
        pd.NA,
        pd.NaT,
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("1e1000"),
        Fraction(1, 3),
    ],
    "of NumPy": [
        *(np.array(1), np.array("v"), np.array(None), np.str_("v"), np.bytes_(b"v"), np.bool_(True)),
        *(np.float64("-inf"), np.datetime64("NaT"), np.datetime64(1, "Y"), np.longdouble(1), np.void(b"v")),
        *(np.array([[1, 2], [3, 4]]), np.array(["v", None], object), np.zeros(2, [("k", "i4"), ("t", "i4")])),
    ],
    "raising": [
        *(Raising(), RaisingText("v"), RaisingNumber(1), RaisingDict({"v": "v"}), RaisingList(["v"])),
        *(Raising, RaisingArrow(), RaisingArrow(1), RaisingArrow((1, 2)), RaisingArrow(None)),
    ],
    "times": [
        *(datetime.max, datetime.min, datetime(2026, 1, 1, tzinfo=RaisingZone()), date.max, time.max),
        *(datetime(2026, 1, 1, tzinfo=OddZone()), timedelta.min, timedelta.resolution, timezone.utc),
        *(pd.Timestamp.max, pd.Timedelta.min, pd.Timestamp(1, tz="Europe/Berlin"), pd.offsets.MonthEnd(2)),
    ],
    "odd containers": [
        *(iter("v"), (each for each in "v"), range(3), recursive_list(), recursive_dict()),
        *(deep_list(600), memoryview(b"v"), bytearray(b"v"), {"v"}, frozenset("v"), ("v",) * 1_000),
        *(
            Colour.RED,
            Numbered.ONE,
            Named("v", 1),
            MappingProxyType({"v": "v"}),
            "v" * 10**6,
            "v\0",
            "\udcff",
        ),
    ],
    "odd data": [
        *(pa.schema([]).empty_table(), pa.table({}), pa.Table.from_arrays([[1], [2]], names=["t", "t"])),
        *(pa.chunked_array([], pa.int64()), TABLE.slice(1), TABLE.slice(2), TABLE.to_batches()[0].slice(1)),
        *(TABLE.to_reader(), TABLE.to_pandas(), pl.from_arrow(TABLE), pl.from_arrow(TABLE).lazy()),
        *(
            pl.Series("t", [1]),
            pd.Series([1]),
            pl.Series("t", [object()]),
            pd.Series(["a"], dtype="category"),
        ),
        *(odd(each) for each in ODD_COLUMNS),
        *(
            pd.DataFrame({"t": pd.period_range("2026", periods=2, freq="M"), "k": 1}),
            pd.DataFrame(index=[1, 1]),
        ),
    ],
    "files": [closed_file(), Path("."), Path("/dev/null")],
}
"""Odd values of each kind, and some that fit, by which calls get further."""

# By their places, as some of them raise where they are hashed.
VALUES: Final = st.sampled_from(sorted(KINDS)).flatmap(
    lambda kind: st.integers(0, len(KINDS[kind]) - 1).map(lambda at: KINDS[kind][at])
)

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
    for module in (wk, wk.kernels, wk.partition, panes):
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
    with suppress(wk.WindowKitError, MineError):
        function(*positional, **named)


EMITTED: Final = wk.query(
    by="k",
    time="t",
    windows=[wk.tumbling(10), wk.sliding(20, 5)],
    aggs=[wk.sum("v"), wk.quantile("v", 0.5).alias("q")],
    emit=wk.emit((wk.rows(3) & wk.on("b")) | wk.every(5) | wk.at(0.5), "accumulating", at_most=3),
)
FILLED: Final = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"), fill={"sum(v)": "zero"})
WRITTEN: Final = [EMITTED, FILLED, ROLLING, JOIN, DISTINCT]

Place = tuple[str | int, ...]


def places(form: Any) -> list[Place]:
    """Return the places in a document, its own first."""
    inner = form.items() if isinstance(form, dict) else enumerate(form) if isinstance(form, list) else ()
    return [(), *((at, *place) for at, each in inner for place in places(each))]


def changed(form: Any, place: Place, value: object) -> Any:
    """Return a document with another value in a place."""
    if not place:
        return value
    made = form.copy()
    made[place[0]] = changed(form[place[0]], place[1:], value)
    return made


@pytest.mark.parametrize("written", WRITTEN, ids=lambda each: type(each).__name__)
@settings(max_examples=400)
@given(data=st.data())
def test_a_document_with_an_odd_value_is_read_or_refused(written: Any, data: st.DataObject) -> None:
    form = written.to_dict()
    place = data.draw(st.sampled_from(places(form)))
    with suppress(wk.WindowKitError, MineError):
        read = type(written).from_dict(changed(form, place, data.draw(VALUES)))
        assert type(written).from_dict(read.to_dict()) == read
        hash(read)


RETURNED: Final = st.one_of(
    VALUES,
    st.builds(lambda value: [(value, 1)], VALUES),
    st.builds(lambda value: [wk.Add(0, value), wk.Shift(value, 1, (0, 1))], VALUES),
)


@settings(max_examples=200)
@given(RETURNED, RETURNED, st.booleans(), st.sampled_from(["in-order", "out-of-order"]))
def test_what_definitions_of_users_return_is_taken_or_refused(
    one: Any, other: Any, is_free: bool, order: Any
) -> None:
    class Free(wk.ContextFree):
        longest = 10

        def next_edge(self, t: int) -> Any:
            return one if is_free else t + 10

        def windows(self, since: int, until: int) -> Any:
            return other

    class Aware(wk.ContextAware):
        def open(self) -> Any:
            return self

        def notify(self, *_: object) -> Any:
            return one

        def finish(self, _: int) -> Any:
            return other

    for definition in (Free(), Aware()):
        query = wk.query(by="k", time="t", windows=wk.custom(definition), aggs=wk.count())
        with suppress(wk.WindowKitError, MineError):
            query.run(TABLE)
        with suppress(wk.WindowKitError, MineError):
            query.operator(order=order).push(TABLE)


@given(VALUES)
def test_what_a_clock_returns_is_taken_or_refused(value: Any) -> None:
    query = wk.query(by=[], time=wk.PROCESSING_TIME, windows=wk.tumbling("1 second"), aggs=wk.count())
    with suppress(wk.WindowKitError, MineError):
        query.operator(clock=lambda: value).push(TABLE)


def test_costs_are_exact_and_of_numbers_of_any_library() -> None:
    exact = panes.pane_costs(5, 1, rows=2**70 + 1, groups=Fraction(1, 3), read=Decimal("0.1"))
    assert exact.paned == Fraction(2**70 + 1, 50) + Fraction(1, 3) + Fraction(5, 3)
    for number in (np.float32(3), np.int64(3), np.array(3), np.float64(3)):
        assert panes.pane_costs(5, 1, rows=number) == panes.pane_costs(5, 1, rows=3)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: wk.band(pd.NaT, 1), "start"),
        (lambda: wk.band(datetime(2026, 1, 1, tzinfo=OddZone()), 1), "start"),
        (lambda: wk.at(Decimal("sNaN")), "share"),
        (lambda: wk.tumbling(type("", (), {})()), "size"),
        (lambda: wk.tumbling(type("Textless", (), {"__repr__": lambda _: 3})()), "size"),
        (lambda: wk.rolling(by=closed_file(), time="t", aggs=wk.count().over("1 row")), "by"),
        (lambda: wk.kernels.sliding_by(pa.array([1]), pa.array([1]), None, agg="sum"), "size"),
    ],
)
def test_a_value_that_is_none_is_named(call: Callable[[], object], argument: str) -> None:
    with pytest.raises(wk.WindowKitError, match=f"^{argument}: "):
        call()


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
