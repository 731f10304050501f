"""What files call the columns of a table: as it does, by names that the table keeps, or by numbers.

Tables whose columns may be renamed without writing files anew know a column by something that stays: Delta by
a name, Iceberg by a number, which Parquet calls a field id.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

import pyarrow as pa

__all__ = ["BY_NAME", "ByName", "ByNumber", "Naming", "Numbers"]

NUMBER: Final = b"PARQUET:field_id"
Numbers: TypeAlias = Mapping[str, int]
"""Of a column, which is "", and of all that is in it, by path."""


class Naming(Protocol):
    """How columns of a table are found in files."""

    def there(self, own: pa.Schema) -> dict[str, str]:
        """Return the columns that a file of this schema has, and what it calls them."""

    def differs(self, own: pa.Schema, name: str) -> str | None:
        """Return in what a file, by its schema, does not say where a column is; None if it does."""


@dataclass(frozen=True)
class ByName:
    """By names.

    Parameters
    ----------
    others : mapping of str to str
        What files call columns; none if they are called as in the table.
    """

    others: Mapping[str, str] = field(default_factory=dict)

    def there(self, own: pa.Schema) -> dict[str, str]:
        """Return the columns that a file of this schema has, and what it calls them."""
        names = set(own.names)
        known = self.others or dict(zip(own.names, own.names, strict=True))
        return {column: stored for column, stored in known.items() if stored in names}

    def differs(self, own: pa.Schema, name: str) -> str | None:
        """Return in what a file, by its schema, does not say where a column is; None if it does."""
        stored = self.others.get(name, name)
        # Spark's reader takes it for the column, and two of them for a mistake.
        others = [other for other in own.names if other.lower() == stored.lower() and other != stored]
        return f"is {others[0]!r}{', too,' if stored in own.names else ''}" if others else None


@dataclass(frozen=True)
class ByNumber:
    """By numbers, which files have to have.

    Parameters
    ----------
    numbers : mapping of str to mapping
        Of columns.
    of_partitions : collection of str
        Columns whose values the table knows of each partition, so that files of others may lack them.
    """

    numbers: Mapping[str, Numbers]
    of_partitions: Collection[str] = ()

    def there(self, own: pa.Schema) -> dict[str, str]:
        """Return the columns that a file of this schema has, and what it calls them."""
        stored = {number_of(field): field.name for field in own}
        return {name: stored[inner[""]] for name, inner in self.numbers.items() if inner[""] in stored}

    def differs(self, own: pa.Schema, name: str) -> str | None:
        """Return in what a file, by its schema, does not say where a column is; None if it does."""
        if any(number_of(field) is None for field in own):
            return "is known by a number, and columns have none"
        stored = self.there(own).get(name)
        if stored is None and name in self.of_partitions:
            return "is that of partitions, and missing"
        if stored is None or numbers_in(own.field(stored)) == self.numbers[name]:
            return None
        return "has other fields"


BY_NAME: Final = ByName()


def number_of(column: pa.Field) -> int | None:
    """Return the number of a column, or of a field within one."""
    said = (column.metadata or {}).get(NUMBER)
    return None if said is None else int(said)


def numbers_in(column: pa.Field, path: str = "") -> dict[str, int | None]:
    """Return the numbers of a column and of what is in it, by path, as `Numbers` has them."""
    found, kind = {path: number_of(column)}, column.type
    inner: list[tuple[str, pa.Field]] = []
    if pa.types.is_map(kind):
        inner = [("key", kind.key_field), ("value", kind.item_field)]
    elif pa.types.is_struct(kind):
        inner = [(each.name, each) for each in kind]
    elif pa.types.is_nested(kind):
        inner = [("element", kind.value_field)]
    for name, each in inner:
        found |= numbers_in(each, f"{path}.{name}")
    return found
