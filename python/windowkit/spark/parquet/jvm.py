"""What is asked of objects of Spark's JVM, which plans are made of."""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa
from py4j.java_gateway import JavaPackage

__all__ = [
    *("Unread", "class_of", "fields_of", "identity", "items", "kind_of", "longs", "named_class", "short"),
]

LONG: Final = 8


class Unread(Exception):  # noqa: N818  # It is caught in `planned`, and is a reason.
    """Raised where a plan has what is not known here."""


def fields_of(struct: Any) -> dict[str, dict[str, Any]]:
    """Return the columns of a schema by their names, in its JSON form."""
    return {field["name"]: field for field in json.loads(struct.json())["fields"]}


def items(sequence: Any) -> list[Any]:
    """Return what is in a sequence of Scala."""
    return [sequence.apply(at) for at in range(sequence.size())]


def class_of(thing: Any) -> str:
    """Return the name of the class of something in the JVM."""
    return str(thing.getClass().getName())


def short(thing: Any) -> str:
    """Return that name without its package."""
    return class_of(thing).rpartition(".")[2]


def kind_of(node: Any) -> str:
    """Return what a node of a plan is, or an expression: the name of its class."""
    return str(node.nodeName())


def identity(column: Any) -> int:
    """Return the number by which a plan knows a column, whatever it is called."""
    return int(column.exprId().id())


def named_class(jvm: Any, name: str) -> Any:
    """Return a class, or the one value of it where its name ends in $, as of Scala's objects."""
    found = jvm
    for part in name.split("."):
        found = getattr(found, part)
    if isinstance(found, JavaPackage):
        raise Unread(f"{name} is not on the driver's class path")
    return getattr(found, "MODULE$") if name.endswith("$") else found


def longs(jvm: Any, numbers: Any) -> pa.Array:
    """Return an array of Java's longs, in one piece: one by one, each would be a request."""
    buffer = jvm.java.nio.ByteBuffer.allocate(LONG * len(numbers))
    buffer.order(jvm.java.nio.ByteOrder.nativeOrder()).asLongBuffer().put(numbers)
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(buffer.array())])
