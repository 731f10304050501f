"""Types of Parquet columns as Spark has them, by the column's own type and by the schema that Spark writes.

Spark sees no Arrow schema in a Parquet file: dictionaries are plain there, durations integers, unsigned
integers the next larger signed ones. But it writes a schema of its own into the footer, as JSON, and where
that is there it is the table's: it alone says which integers are intervals, and how strings are compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from windowkit.errors import InvalidType, InvalidValue

__all__ = [
    "UTC",
    "WIDENED",
    "Column",
    "Kind",
    "Told",
    "alike",
    "as_instants",
    "check_once",
    "columns_told",
    "kind_in_spark",
    "numbered",
    "readable",
    "refusal",
]

UTC: Final = pa.timestamp("us", "UTC")
PLAIN: Final = (pa.bool_(), pa.float32(), pa.float64(), pa.date32(), pa.null())
WIDENED: Final = {
    (pa.int8(), pa.int16()),
    (pa.int8(), pa.int32()),
    (pa.int8(), pa.int64()),
    (pa.int16(), pa.int32()),
    (pa.int16(), pa.int64()),
    (pa.int32(), pa.int64()),
    (pa.int8(), pa.float64()),
    (pa.int16(), pa.float64()),
    (pa.int32(), pa.float64()),
    (pa.float32(), pa.float64()),
}
"""From what a file has to what the table has, where Spark widens without loss."""

SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"
COLLATIONS: Final = "__COLLATIONS"
FIELD_ID: Final = "parquet.field.id"
DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
TEXT: Final = re.compile(r"(var)?char\(\d+\)")
NAMED: Final = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal": pa.decimal128(10, 0),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": UTC,
    "timestamp_ltz": UTC,
    "timestamp_ntz": pa.timestamp("us"),
    "time(6)": pa.time64("ns"),
    "interval day to second": pa.duration("us"),
    "void": pa.null(),
    "null": pa.null(),
}
"""Types by their names in Spark's JSON; it has others, which windowkit does not read."""


@dataclass(frozen=True)
class Told:
    """A type of which more is known than the column's own says: from Spark's schema, or from a setting.

    Parameters
    ----------
    wanted : pyarrow.DataType, optional
        What Spark has of it; none if windowkit does not read that.
    text : str
        How Spark calls it.
    """

    wanted: pa.DataType | None
    text: str

    def __str__(self) -> str:
        return self.text


Kind: TypeAlias = pa.DataType | Told


class Column(NamedTuple):
    """A column of a file."""

    name: str
    type: Kind


def readable(column: str, kind: Kind, where: str) -> pa.DataType:
    """Return `kind_in_spark`, or raise what says which column of which file it is."""
    found = kind_in_spark(kind)
    if found is None:
        raise InvalidType(f"query: column {column!r} is {kind} in {where}, {refusal(kind)}")
    return found


def refusal(kind: Kind) -> str:
    """Return why a column is not read, and what can be done."""
    if isinstance(kind, Told):
        return (
            "as the schema says that Spark wrote there; query.run refuses such columns, too: cast it in "
            "Spark first, for example strings to UTF8_BINARY and intervals to INTERVAL DAY TO SECOND, and "
            "take query.run of that DataFrame"
        )
    if "time64[ns]" in str(kind):
        return (
            "which Spark reads as TIME(9), and windowkit takes TIME(6); write the column as time64[us], or "
            "read it with pyarrow and query.run(table)"
        )
    return (
        "which Spark does not read from Parquet; read it with pyarrow and query.run(table), or write the "
        "column as another type"
    )


def kind_in_spark(kind: Kind) -> pa.DataType | None:
    """Return the Arrow type of what Spark reads from a Parquet column of this type; None if it does not.

    Examples
    --------
    >>> kind_in_spark(pa.dictionary(pa.int8(), pa.large_string()))
    DataType(string)
    >>> kind_in_spark(pa.uint32())
    DataType(int64)
    """
    is_a = pa.types
    if isinstance(kind, Told):
        return kind.wanted
    if isinstance(kind, pa.BaseExtensionType):
        return kind_in_spark(kind.storage_type)
    if is_a.is_dictionary(kind):
        return kind_in_spark(kind.value_type)
    if is_a.is_signed_integer(kind) or kind in PLAIN:
        return kind
    if is_a.is_unsigned_integer(kind):
        wider = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
        return wider[kind.bit_width]
    if is_a.is_date64(kind):
        return pa.date32()
    if is_a.is_duration(kind):
        return pa.int64()
    if is_a.is_timestamp(kind):
        return UTC if kind.tz is not None else pa.timestamp("us")
    if kind == pa.time64("us"):
        # As pyspark has TIME.
        return pa.time64("ns")
    if is_a.is_decimal(kind) and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    if kind in (pa.string(), pa.large_string(), pa.string_view()):
        return pa.string()
    if kind in (pa.binary(), pa.large_binary(), pa.binary_view()) or is_a.is_fixed_size_binary(kind):
        return pa.binary()
    if is_a.is_struct(kind):
        inner = [(kind.field(at).name, kind_in_spark(kind.field(at).type)) for at in range(kind.num_fields)]
        return None if any(has_none(found) for _, found in inner) else pa.struct(inner)
    if is_a.is_map(kind):
        key, item = kind_in_spark(kind.key_type), kind_in_spark(kind.item_type)
        return None if has_none(key) or has_none(item) else pa.map_(key, item)
    if is_a.is_list(kind) or is_a.is_large_list(kind) or is_a.is_fixed_size_list(kind):
        element = kind_in_spark(kind.value_type)
        return None if has_none(element) else listed(element)
    return None


def has_none(kind: pa.DataType | None) -> bool:
    return kind is None


def listed(element: pa.DataType) -> pa.DataType:
    """Return the type of lists, as Spark names their elements."""
    return pa.list_(pa.field("element", element))


def alike(read: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark reads one of its types as another: times with and without zone as each other.

    Also integers as intervals, of which a file's own type tells nothing.
    """
    is_a = pa.types
    if read == wanted or (is_a.is_timestamp(read) and is_a.is_timestamp(wanted)):
        return True
    if (read, wanted) == (pa.int64(), pa.duration("us")):
        return True
    if read.id != wanted.id or not is_a.is_nested(read) or read.num_fields != wanted.num_fields:
        return False
    inner = [(read.field(at), wanted.field(at)) for at in range(read.num_fields)]
    # Names of the inside of maps and lists are nobody's.
    named = not is_a.is_struct(read) or all(one.name == other.name for one, other in inner)
    return named and all(alike(one.type, other.type) for one, other in inner)


def as_instants(kind: Kind) -> Kind:
    """Return a type whose times without zone are instants; of Spark's own schema they are what it says."""
    read = kind_in_spark(kind)
    if isinstance(kind, Told) or read is None:
        return kind
    found = with_zone(read)
    return kind if found == read else Told(found, f"{kind}, by a setting")


def with_zone(kind: pa.DataType) -> pa.DataType:
    """Return one of Spark's types with instants for all its times."""
    is_a = pa.types
    if is_a.is_struct(kind):
        return pa.struct([(field.name, with_zone(field.type)) for field in kind])
    if is_a.is_map(kind):
        return pa.map_(with_zone(kind.key_type), with_zone(kind.item_type))
    if is_a.is_list(kind):
        return listed(with_zone(kind.value_type))
    return UTC if is_a.is_timestamp(kind) else kind


def check_once(names: list[str], where: str) -> None:
    """Refuse a file that has a name twice, as Spark does."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidValue(
            f"paths: {where} has {names.count(twice[0])} columns {twice[0]!r}; a file that is read has every "
            "name once"
        )


def columns_told(own: pa.Schema, metadata: Mapping[bytes, bytes] | None) -> list[Column]:
    """Return the columns that Spark's schema in a footer says a file has; those it has, if there is none.

    Spark takes the columns that this schema names, and no others; nulls of those that the file lacks.

    Parameters
    ----------
    own : pyarrow.Schema
        By the file's columns.
    metadata : mapping of bytes to bytes, optional
        Of the footer.
    """
    stored = {field.name: field.type for field in own}
    said = fields_said(metadata)
    if said is None:
        # What has nulls only is stored as integers, and read as such.
        nulls = Told(pa.int32(), "null")
        return [Column(name, nulls if kind == pa.null() else kind) for name, kind in stored.items()]
    columns = []
    for field in said:
        name, kind, text = field_said(field)
        found = stored.get(name)
        columns.append(Column(name, Told(kind, text) if has_none(found) else joined(found, kind, text)))
    return columns


def joined(stored: pa.DataType, wanted: pa.DataType | None, text: str) -> Kind:
    """Return a column's type by what is stored and by what Spark's schema says."""
    read = kind_in_spark(stored)
    if wanted is None or read is None:
        return Told(None, text)
    if read == wanted and "timestamp_ntz" not in text:
        return stored
    if (read, wanted) in WIDENED or alike(read, wanted):
        return Told(wanted, text)
    return Told(None, f"{text}, stored as {stored},")


def numbered(metadata: Mapping[bytes, bytes] | None) -> set[str]:
    """Return the columns to which Spark's schema gives numbers, by which it may be told to find them."""
    said = fields_said(metadata) or []
    return {str(field.get("name")) for field in said if FIELD_ID in json.dumps(field)}


def fields_said(metadata: Mapping[bytes, bytes] | None) -> list[dict[str, Any]] | None:
    """Return the fields of Spark's schema; None where there is none, or none that is read."""
    try:
        said = json.loads((metadata or {}).get(SCHEMA, b"null"))
    except ValueError:
        # Spark 1 wrote another form; Spark takes the file's columns of what it cannot read, either.
        return None
    fields = said.get("fields") if isinstance(said, dict) else None
    return fields if isinstance(fields, list) and all(isinstance(field, dict) for field in fields) else None


def field_said(field: dict[str, Any]) -> tuple[str, pa.DataType | None, str]:
    """Return name and type of a field of Spark's JSON, and how Spark calls the type."""
    name = str(field.get("name"))
    collations = (field.get("metadata") or {}).get(COLLATIONS, {})
    return name, *kind_said(field.get("type"), collations, name)


def kind_said(said: Any, collations: dict[str, str], path: str) -> tuple[pa.DataType | None, str]:
    """Return a type of Spark's JSON, if it is one that is read, and how Spark calls it.

    How strings are compared is said at the field they are in, by the `path` from there.
    """
    if isinstance(said, str):
        if path in collations:
            return None, f"string collate {collations[path].split('.')[-1]}"
        decimal = DECIMAL.fullmatch(said)
        if decimal:
            return pa.decimal128(int(decimal[1]), int(decimal[2])), said
        return (pa.string() if TEXT.fullmatch(said) else NAMED.get(said)), said
    given = said if isinstance(said, dict) else {}
    if given.get("type") == "array":
        element, text = kind_said(given.get("elementType"), collations, f"{path}.element")
        return None if has_none(element) else listed(element), f"array<{text}>"
    if given.get("type") == "map":
        key, first = kind_said(given.get("keyType"), collations, f"{path}.key")
        item, second = kind_said(given.get("valueType"), collations, f"{path}.value")
        kind = None if has_none(key) or has_none(item) else pa.map_(key, item)
        return kind, f"map<{first},{second}>"
    if given.get("type") == "struct":
        fields = [field_said(field) for field in given.get("fields", [])]
        text = ",".join(f"{name}:{told}" for name, _, told in fields)
        whole = all(not has_none(kind) for _, kind, _ in fields)
        return pa.struct([(name, kind) for name, kind, _ in fields]) if whole else None, f"struct<{text}>"
    # Of a class of its user's.
    return None, f"of the user-defined type {given.get('class') or given.get('pyClass')}"
