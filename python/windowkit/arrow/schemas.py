"""Schemas of files that are one table: their columns, and the types that hold the values of all files.

A column that some files lack is null there. Of numbers the wider type is taken, and of times the finer unit;
whether a time has a zone is part of what it means, so that files must agree on that. The order of files does
not matter: of two zones neither is taken, but UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from windowkit.errors import InvalidType

__all__ = ["united"]

MOST_DIGITS: Final = 38
"""Of decimals that are aggregated."""


def united(schemas: Mapping[str, pa.Schema], name: str, argument: str = "input") -> pa.DataType:
    """Return the type of a column that some of the files have, which are given by path.

    Raises
    ------
    InvalidType
        The types that two files have for the column cannot be united.
    """
    seen: dict[pa.DataType, str] = {}
    for path, schema in schemas.items():
        if schema.get_field_index(name) >= 0:
            seen.setdefault(schema.field(name).type, path)
    # Floats hold what no decimal does, so that it does not depend on the order whether there is such a type.
    seen = dict(sorted(seen.items(), key=lambda pair: not pa.types.is_floating(pair[0])))
    kind, *others = seen
    for at, other in enumerate(others, 1):
        wider = common(kind, other)
        if wider is None:
            # The type so far may be that of several files, each of which may differ.
            before = list(seen)[:at]
            one = next((each for each in before if common(each, other) is None), before[0])
            raise cannot_unite(argument, name, (one, seen[one]), (other, seen[other]))
        kind = wider
    return kind


def cannot_unite(
    argument: str, name: str, one: tuple[pa.DataType, str], other: tuple[pa.DataType, str]
) -> InvalidType:
    """Return what is raised for a column with types of which none holds the values of both."""
    allowed = "types of a column are united if they are numbers, or times that all have a zone or none"
    if decimal_of(one[0]) and decimal_of(other[0]):
        allowed = f"a decimal that holds the values of both has more than {MOST_DIGITS} digits"
    return InvalidType(
        f"{argument}: column {name!r} is {one[0]} in {one[1]!r} and {other[0]} in {other[1]!r}; {allowed}"
    )


def common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type that holds the values of two types, None if none does.

    Examples
    --------
    >>> common(pa.int32(), pa.float64()), common(pa.timestamp("ms", "UTC"), pa.timestamp("ns", "UTC"))
    (DataType(double), TimestampType(timestamp[ns, tz=UTC]))
    >>> common(pa.timestamp("us"), pa.timestamp("us", "UTC")) is None
    True
    >>> common(pa.int64(), pa.decimal128(10, 2)), common(pa.float32(), pa.decimal128(10, 2))
    (Decimal128Type(decimal128(21, 2)), DataType(double))
    """
    if one == other:
        return one
    if pa.types.is_dictionary(one) != pa.types.is_dictionary(other):
        return common(*(each.value_type if pa.types.is_dictionary(each) else each for each in (one, other)))
    if None not in (is_bytes := [bytes_of(kind) for kind in (one, other)]) and len(set(is_bytes)) == 2:
        # Bytes are not text, which pyarrow would make of them.
        return None
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other) and one.tz and other.tz:
        # Moments are the same in all zones.
        zone = one.tz if one.tz == other.tz else "UTC"
        one, other = (pa.timestamp(kind.unit, zone) for kind in (one, other))
    if pa.types.is_decimal(one) or pa.types.is_decimal(other):
        if pa.types.is_floating(one) or pa.types.is_floating(other):
            return pa.float64()
        if None not in (decimals := [decimal_of(one), decimal_of(other)]):
            return wider_decimal(*decimals)
    for day, moment in ((one, other), (other, one)):
        if pa.types.is_date(day) and pa.types.is_timestamp(moment) and moment.tz is None:
            return moment
    pair = [pa.schema([("column", kind)]) for kind in (one, other)]
    try:
        return pa.unify_schemas(pair, promote_options="permissive").field(0).type
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return None


def decimal_of(kind: pa.DataType) -> pa.DataType | None:
    """Return the type of decimals that hold all values of one of decimals or integers; None of all else."""
    if pa.types.is_integer(kind):
        values = 2 ** (kind.bit_width - pa.types.is_signed_integer(kind))
        return pa.decimal128(len(str(values)), 0)
    return kind if pa.types.is_decimal(kind) else None


def wider_decimal(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type of decimals with the digits of two types, before the point and after it."""
    after = max(one.scale, other.scale)
    digits = max(kind.precision - kind.scale for kind in (one, other)) + after
    if pa.types.is_decimal256(one) or pa.types.is_decimal256(other):
        return pa.decimal256(digits, after) if digits <= 76 else None
    return pa.decimal128(digits, after) if digits <= MOST_DIGITS else None


def bytes_of(kind: pa.DataType) -> bool | None:
    """Whether a type is one of bytes, not of text; None if it is neither."""
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return True
    return False if pa.types.is_string(kind) or pa.types.is_large_string(kind) else None
