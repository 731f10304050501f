"""What an operator is made of, and the queries that come and go, drawn."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.extents import FORMS
from support.holding import TWIN
from support.simulation.forms import BY_TIME, GAP, KINDS, WEIGHT, Allowed, any_query
from support.simulation.places import Place, any_place
from support.streams import KEYS, MARKS, POOLS, VALUES
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
    others: list[tuple[wk.Query, int]]
    """With the lateness that each allows."""
    place: Place
    options: Mapping[str, Any]
    """Of the operator."""
    pools: Mapping[str, list[Any]]
    """What columns of values have."""
    is_sliced: bool = False
    """Whether slices are pushed beside rows, where they may be."""

    @property
    def at(self) -> str:
        """The column of times."""
        return str(self.query.time)

    @property
    def processing(self) -> bool:
        """Whether rows get their times from the operator's clock: data does not have the column then."""
        return isinstance(self.query.time, ProcessingTime)

    @property
    def updates(self) -> bool:
        return bool(self.options["updates"])

    @property
    def shed(self) -> wk.Shed | None:
        return self.options.get("shed")

    @property
    def is_weighted(self) -> bool:
        return WEIGHT in self.schema.names

    def given(self, rows: pa.Table) -> pa.Table:
        """Return rows as the operator gets them."""
        return rows.drop_columns([self.at]) if self.processing else rows


@st.composite
def any_setting(draw: st.DrawFn) -> Setting:
    processing = draw(st.sampled_from([False] * 5 + [True]))
    place = Place(STAMP) if processing else draw(any_place())
    at = wk.PROCESSING_TIME if processing else "t"
    kind = "in-order" if processing else draw(st.sampled_from(KINDS))
    in_order = kind == "in-order" or (kind == "sealed" and draw(st.sampled_from([False] * 3 + [True])))
    order = "in-order" if in_order else "out-of-order"
    keys = [draw(st.sampled_from(KEYS)) for _ in range(draw(st.sampled_from([0, 1, 1, 2])))]
    keys += [draw(st.sampled_from(KEYS))] * (kind == "shed" and not keys)
    by = [f"k{number}" for number in range(len(keys))]
    has_weights = kind in ("in-order", "patient", "strict") and draw(st.sampled_from([False] * 3 + [True]))
    has_gaps = kind not in BY_TIME and draw(st.sampled_from([False] * 11 + [True]))
    names = dict(zip(by, keys, strict=True)) | {str(at): (place.kind, None)} | VALUES | MARKS
    names |= {GAP: (gap_type(place.kind), None), "id": (pa.int64(), None)}
    names |= {WEIGHT: (pa.int8(), None), TWIN: (pa.int64(), None)} if has_weights else {}
    schema = pa.schema({name: kind for name, (kind, _) in names.items()})

    def any_lateness() -> int:
        if kind == "patient":
            return 10_000
        return draw(st.sampled_from([0, 3, 20])) if kind in ("strict", *BY_TIME) else 0

    allowed = Allowed(kind, by, at, place, draw(st.sampled_from(FORMS)), has_weights, has_gaps)
    lateness = any_lateness()
    query = draw(any_query(allowed, lateness))
    options = {"store": draw(st.sampled_from(["lazy", "eager", "auto"])), "updates": kind != "sealed"}
    if kind in ("shed", "sampled"):
        limit = draw(st.sampled_from([1, 5_000, 10_000, 20_000, 10**9]))
        keep = "keys" if kind == "shed" else "rows"
        options["shed"] = wk.shed(limit, keep, seed=draw(st.integers(0, 3)))
    else:
        options["late_limit"] = draw(st.sampled_from([10**6, 10**6, None, 0, 1, 5, 20]))
    others = []
    for _ in range(draw(st.integers(0, 4)) if kind != "sliced" else 0):
        of_other = any_lateness()
        others.append((draw(any_query(allowed, of_other)), of_other * place.pace))
    delay = None if in_order or kind == "sliced" else draw(st.sampled_from([None, None, 0, 7]))
    seconds = 86_400 if pa.types.is_date(place.kind) else 1
    return Setting(
        query,
        schema,
        order,
        lateness * place.pace,
        None if delay is None else delay * place.pace,
        others,
        place,
        options,
        POOLS | {GAP: [gap * place.pace * seconds for gap in (-3, 0, 1, 2, 5, 9, 20)]},
        is_sliced=kind == "sliced",
    )


def gap_type(time: pa.DataType) -> pa.DataType:
    """Return the type of gaps in units of times, or in seconds where these are dates."""
    if pa.types.is_integer(time):
        return pa.int32()
    return pa.duration("s" if pa.types.is_date(time) else time.unit)


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
