"""The functions of the core, and the partials that they are lowered from."""

from __future__ import annotations

import pyarrow as pa

import windowkit as wk
from windowkit.language.functions import BY_FUNCTION, FUNCTIONS, NUMBERS
from windowkit.local.query import plan


def parameters(function: str) -> tuple[float, ...]:
    """Return numbers that a function takes."""
    form = BY_FUNCTION.get(function)
    if form is None or not form.numbers:
        return ()
    return (12.0 if NUMBERS[form.number].whole else 0.5,)


def kinds_of_partials() -> list[str]:
    """Return every kind of partial that functions are lowered from."""
    aggs = [
        wk.Aggregate(
            each,
            ("v", "w")[: BY_FUNCTION[each].columns] if each in BY_FUNCTION else (),
            each,
            parameters=parameters(each),
        )
        for each in sorted(FUNCTIONS)
    ]
    schema = pa.schema({"t": pa.int64(), "v": pa.int64(), "w": pa.int64()})
    query = wk.query(by=[], time="t", windows=wk.tumbling(1), aggs=aggs)
    return sorted({each.kind for each in plan(query, schema).partials})
