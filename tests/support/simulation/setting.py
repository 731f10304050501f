"""What an operator is made of, and the queries that come and go, drawn."""

from __future__ import annotations

from random import Random
from typing import NamedTuple, TypeVar

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.extents import FORMS
from support.failing import COMMUTATIVE, ORDERED, Rising, Terms
from support.oracle_types import functions_of
from support.simulation.policies import any_policy
from support.streams import AGGREGATES, KEYS, MARKS, TIMES, VALUES, row_windows, time_window
from windowkit.language.processing import TYPE as STAMP
from windowkit.language.processing import ProcessingTime

T = TypeVar("T")


class Setting(NamedTuple):
    """What an operator is made of, and the queries that come and go."""

    query: wk.Query
    schema: pa.Schema
    order: str
    lateness: int
    delay: int | None
    store: str
    others: list[tuple[wk.Query, int]]
    """With the lateness that each allows."""

    @property
    def at(self) -> str:
        """The column of times."""
        return str(self.query.time)

    @property
    def time(self) -> pa.DataType:
        return self.schema.field(self.at).type

    @property
    def processing(self) -> bool:
        """Whether rows get their times from the operator's clock: data does not have the column then."""
        return isinstance(self.query.time, ProcessingTime)

    def given(self, rows: pa.Table) -> pa.Table:
        """Return rows as the operator gets them."""
        return rows.drop_columns([self.at]) if self.processing else rows


@st.composite
def any_window(draw: st.DrawFn, kind: pa.DataType) -> wk.Window:
    choices = ["time", "time", "rows", "rows", "rising"]
    if pa.types.is_integer(kind):
        choices.append("calendar")
    match draw(st.sampled_from(choices)):
        case "time":
            return time_window(draw, kind)
        case "rows":
            return row_windows(draw, kind)
        case "rising":
            return wk.custom(Rising())
    return wk.custom(Terms())


AGGS = [
    each.alias(f"a{number}")
    for number, each in enumerate(
        [
            *AGGREGATES,
            *(each(name) for name, (kind, _) in VALUES.items() for each in functions_of(kind)),
            *(each.where("b") for each in [*COMMUTATIVE, *ORDERED]),
            # As often as some ten others.
            *([*COMMUTATIVE, *ORDERED] * 3),
        ]
    )
]
"""Each with a name of its own, as one name must mean one type in all queries of an operator."""


@st.composite
def any_setting(draw: st.DrawFn) -> Setting:
    processing = draw(st.sampled_from([False] * 5 + [True]))
    at, time = (wk.PROCESSING_TIME, STAMP) if processing else ("t", draw(st.sampled_from(TIMES)))
    keys = [draw(st.sampled_from(KEYS)) for _ in range(draw(st.sampled_from([0, 1, 1, 2])))]
    by = [f"k{number}" for number in range(len(keys))]
    names = (
        dict(zip(by, keys, strict=True))
        | {str(at): (time, None)}
        | VALUES
        | MARKS
        | {"id": (pa.int64(), None)}
    )
    schema = pa.schema({name: kind for name, (kind, _) in names.items()})
    kind = "in-order" if processing else draw(st.sampled_from(["in-order", "patient", "patient", "strict"]))
    order = "in-order" if kind == "in-order" else "out-of-order"
    lateness = {"in-order": 0, "patient": 10_000, "strict": draw(st.sampled_from([0, 3, 20]))}[kind]

    form = draw(st.sampled_from(FORMS))

    def query() -> wk.Query:
        windows = [
            draw(any_window(time)).alias(f"w{number}")
            for number in range(draw(st.sampled_from([1, 1, 2, 3])))
        ]
        aggs = st.lists(st.sampled_from(AGGS), min_size=1, max_size=4, unique_by=lambda each: each.name)
        emit = draw(any_policy(time, processing))
        return wk.query(by=by, time=at, windows=windows, aggs=draw(aggs), emit=emit, window_columns=form)

    return Setting(
        query(),
        schema,
        order,
        lateness,
        None if kind == "in-order" else draw(st.sampled_from([None, None, 0, 7])),
        draw(st.sampled_from(["lazy", "eager", "auto"])),
        [
            (query(), lateness if kind != "strict" else draw(st.sampled_from([0, 3, 20])))
            for _ in range(draw(st.integers(0, 4)))
        ],
    )


def drawn(strategy: st.SearchStrategy[T], random: Random) -> T:
    """Return a value of a strategy that is determined by a generator of random numbers."""
    values: list[T] = []

    @settings(database=None)
    @given(strategy)
    def take(value: T) -> None:
        values.append(value)

    while not values:
        # None is taken where the strategy refuses what the bytes say.
        take.hypothesis.fuzz_one_input(random.randbytes(8192))
    return values[0]
