"""What is asked of objects of Spark's JVM, which plans are made of."""

from __future__ import annotations

import json
import re
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
from py4j.java_gateway import JavaPackage

__all__ = [
    *(
        "Unread",
        "attributes",
        "class_of",
        "fields_of",
        "identity",
        "items",
        "kind_of",
        "longs",
        "named_class",
        "short",
    ),
]

LONG: Final = 8
BETWEEN: Final = "\0\0"
"""What is between columns: no name has it."""
ATTRIBUTE: Final = re.compile(r"(.*)#(\d+)L?(?:-T\d+ms)?", re.DOTALL)
"""A column as a plan writes it: its name, its number, and more of some types and of watermarks."""

PATH: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:)(//[^/]*)?(/.*)", re.DOTALL)
STATUS: Final = re.compile(
    r"FileStatusWithMetadata\((?:Located)?FileStatus\{path=(.*); isDirectory=false; length=(\d+); "
    r"replication=\d+; blocksize=\d+; modification_time=(\d+); access_time=\d+; owner=[^;]*; group=[^;]*; "
    r"permission=[^;]*; isSymlink=false; hasAcl=\w+; isEncrypted=\w+; isErasureCoded=\w+\},Map\((.*)\)\)",
    re.DOTALL,
)
"""A file as Spark has listed it: its path, size and time, and what else is known of it."""


class Unread(Exception):  # noqa: N818  # It is caught in `planned`, and is a reason.
    """Raised where a plan has what is not known here."""


def fields_of(struct: Any) -> dict[str, dict[str, Any]]:
    """Return the columns of a schema by their names, in its JSON form."""
    return {field["name"]: field for field in json.loads(struct.json())["fields"]}


def items(sequence: Any) -> list[Any]:
    """Return what is in a sequence of Scala."""
    return [sequence.apply(at) for at in range(sequence.size())]


def attributes(sequence: Any) -> list[tuple[str, int]]:
    """Return what `attribute` does of several columns, which are asked for at once."""
    found = [attribute(text) for text in str(sequence.mkString(BETWEEN)).split(BETWEEN) if text]
    if len(found) != sequence.size():
        raise Unread("a column has a name with what is put between names")
    return found


def attribute(column: Any) -> tuple[str, int]:
    """Return the name of a column of a plan, and the number by which the plan knows it.

    By the column as text, since each request of the JVM counts; what is renamed has a longer name there.
    """
    text = column if isinstance(column, str) else str(column.toString())
    found = ATTRIBUTE.fullmatch(text)
    if found is None:
        raise Unread(f"a column of the plan is written as {text}")
    return found[1], int(found[2])


def uri_of(path: str) -> str | None:
    """Return a path as Hadoop writes it, which escapes nothing, as a URI; None if it names no file system."""
    found = PATH.fullmatch(path)
    return None if found is None else f"{found[1]}{found[2] or ''}{quote(found[3])}"


def statuses(files: Any) -> list[tuple[str, int, int, str | None]]:
    """Return URIs, sizes and times in milliseconds of files that Spark has listed, and what else it knows.

    All are asked for at once, as text: one by one, that would be six requests a file. Of a file system whose
    files are written in another way, they are asked for one by one, and None is known of what else there is.
    """
    texts = [text for text in str(files.mkString(BETWEEN)).split(BETWEEN) if text]
    found = [STATUS.fullmatch(text) for text in texts]
    if len(found) == files.size():
        known = [
            (uri, int(each[2]), int(each[3]), each[4])
            for each in found
            if each is not None and (uri := uri_of(each[1])) is not None
        ]
        if len(known) == len(found):
            return known
    return [
        (str(each.getPath().toUri().toString()), int(each.getLen()), int(each.getModificationTime()), None)
        for each in items(files)
    ]


def class_of(thing: Any) -> str:
    """Return the name of the class of something in the JVM."""
    return str(thing.getClass().getName())


def short(thing: Any) -> str:
    """Return that name without its package."""
    return class_of(thing).rpartition(".")[2]


def kind_of(node: Any) -> str:
    """Return what a node of a plan is, or an expression: the name of its class."""
    return str(node.nodeName())


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
