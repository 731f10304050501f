"""Schemas of files that are one table: their columns, and the types that hold the values of all files.

A column that some files lack is null there. Of numbers the wider type is taken, and of times the finer unit;
whether a time has a zone is part of what it means, so that files must agree on that.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from windowkit.errors import InvalidType

__all__ = ["united"]


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
    kind, *others = seen
    for at, other in enumerate(others, 1):
        wider = common(kind, other)
        if wider is None:
            # The type so far may be that of several files, each of which may differ.
            before = list(seen)[:at]
            one = next((each for each in before if common(each, other) is None), before[0])
            raise cannot_unite(argument, name, (seen[one], one), (seen[other], other))
        kind = wider
    return kind


def cannot_unite(
    argument: str, name: str, one: tuple[str, pa.DataType], other: tuple[str, pa.DataType]
) -> InvalidType:
    """Return what is raised for a column with types of which none holds the values of both."""
    return InvalidType(
        f"{argument}: column {name!r} is {one[1]} in {one[0]!r} and {other[1]} in {other[0]!r}; types of a "
        "column are united if they are numbers, or times that all have a zone or none"
    )


def common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type that holds the values of two types, None if none does.

    Examples
    --------
    >>> common(pa.int32(), pa.float64()), common(pa.timestamp("ms", "UTC"), pa.timestamp("ns", "UTC"))
    (DataType(double), TimestampType(timestamp[ns, tz=UTC]))
    >>> common(pa.timestamp("us"), pa.timestamp("us", "UTC")) is None
    True
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
        other = pa.timestamp(other.unit, one.tz)
    for day, moment in ((one, other), (other, one)):
        if pa.types.is_date(day) and pa.types.is_timestamp(moment) and moment.tz is None:
            return moment
    pair = [pa.schema([("column", kind)]) for kind in (one, other)]
    try:
        return pa.unify_schemas(pair, promote_options="permissive").field(0).type
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return None


def bytes_of(kind: pa.DataType) -> bool | None:
    """Whether a type is one of bytes, not of text; None if it is neither."""
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return True
    return False if pa.types.is_string(kind) or pa.types.is_large_string(kind) else None
