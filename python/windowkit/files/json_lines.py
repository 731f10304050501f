"""Lines of JSON: an object a line, whose fields are copied to Arrow files as text.

Nothing is lost on the way: a number keeps its digits, so that all values of a column decide its type, as
those of text do (`windowkit.files.text`). Lists and objects are read as their types once all of them were
seen. What a column cannot be of, a line of a file is named for.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from windowkit.errors import InvalidType, InvalidValue
from windowkit.files.text import Inferred
from windowkit.language.windows import quoted

__all__ = ["Copied", "copied"]

ROWS: Final = 2**15
"""Rows of a block, at most."""
BYTES: Final = 2**24
"""Bytes of lines after which a block ends."""
COMPRESSED: Final = {".gz": "gzip", ".bz2": "bz2"}


class Written(str):
    """A number with a fraction or an exponent, or NaN, as it is written."""

    __slots__ = ()


KINDS: Final[dict[type, str]] = {
    **dict.fromkeys((int, Written), "a number"),
    bool: "a boolean",
    str: "a string",
    list: "a list",
    dict: "an object",
}
NESTED: Final = ("a list", "an object")
DECODER: Final = json.JSONDecoder(parse_float=Written, parse_constant=Written)


@dataclass
class Copied:
    """Arrow files that have the fields of lines of JSON.

    Parameters
    ----------
    parts : list of list of str
        For each file of lines its Arrow files, each of which has the fields that there were by then.
    kinds : dict
        For each field of any line, of which kinds its values are, and the line with the first of each kind;
        nothing is known of fields that are not copied.
    """

    parts: list[list[str]] = field(default_factory=list)
    kinds: dict[str, dict[str, str]] = field(default_factory=dict)

    def is_text(self, name: str) -> bool:
        """Whether a column is one of strings, not of what is only written as text."""
        return "a string" in self.kinds[name]


def copied(
    paths: Sequence[str],
    system: fs.FileSystem,
    folder: Path,
    columns: Collection[str] | None,
    typed: Collection[str] = (),
) -> Copied:
    """Copy fields of lines of JSON to Arrow files in a folder.

    Parameters
    ----------
    paths : sequence of str
        Files, compressed if their names end so.
    system : pyarrow.fs.FileSystem
    folder : Path
    columns : collection of str, optional
        The fields that are copied, all by default.
    typed : collection of str, optional
        Those whose type is given, which remain text, of whichever kinds their values are.

    Raises
    ------
    InvalidType
        A line is no object, or values of a field are of two kinds.
    InvalidValue
        A line is no JSON.
    """
    made, names = Copied(), count()
    # Another input of a job has files of its own in that folder.
    folder = Path(tempfile.mkdtemp(dir=folder))
    for path in paths:
        ending = COMPRESSED.get(Path(path).suffix.lower())
        try:
            with system.open_input_stream(path, compression=ending) as stream:
                made.parts.append(list(copy(stream, path, folder, names, columns, made.kinds)))
        except OSError as error:
            raise InvalidValue(f"input: {path!r} cannot be copied to a temporary file ({error})") from error
    for name, kinds in made.kinds.items():
        if len(kinds) > 1 and name not in typed:
            (one, here), (other, there) = list(kinds.items())[:2]
            raise InvalidType(
                f"input: column {name!r} is {one} in {here} and {other} in {there}; values of a column are "
                f"of one kind, or --types {quoted(name)}=string reads each as text"
            )
    nested = [
        name
        for name, kinds in made.kinds.items()
        if name not in typed and not kinds.keys().isdisjoint(NESTED)
    ]
    if nested:
        type_nested(list(chain.from_iterable(made.parts)), nested)
    return made


def copy(
    stream: pa.NativeFile,
    path: str,
    folder: Path,
    names: Iterator[int],
    columns: Collection[str] | None,
    kinds: dict[str, dict[str, str]],
) -> Iterator[str]:
    """Copy a file; yield the Arrow files that are written, a new one where more fields appear."""
    writer: pa.ipc.RecordBatchFileWriter | None = None
    written: list[str] = []
    try:
        for rows, lines in blocks(stream, path):
            for name in dict.fromkeys(chain.from_iterable(rows)):
                if name not in kinds and is_broken(name):
                    line = next(line for row, line in zip(rows, lines, strict=True) if name in row)
                    raise half_of_a_character(line, path, "a name")
                kinds.setdefault(name, {})
            there = [name for name in kinds if columns is None or name in columns]
            texts = [column(name, rows, lines, path, kinds[name]) for name in there]
            if there != written or writer is None:
                if writer is not None:
                    writer.close()
                target = str(folder / f"{next(names)}.arrow")
                schema = pa.schema([(name, pa.string()) for name in there])
                writer, written = pa.ipc.new_file(target, schema), there
                yield target
            # A batch without columns has no rows.
            if there:
                writer.write_batch(pa.record_batch(texts, there))
    finally:
        if writer is not None:
            writer.close()


def blocks(stream: pa.NativeFile, path: str) -> Iterator[tuple[list[dict[str, Any]], list[int]]]:
    """Yield the objects of some lines, and the numbers of these."""
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    size = 0
    for number, line in enumerate(io.BufferedReader(stream, 2**20), 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip(" \t\r\n")
            if not text:
                continue
            row, end = DECODER.raw_decode(text)
            if end < len(text):
                raise ValueError(f"{text[end:][:9]!r} follows the object")
        except (ValueError, RecursionError) as error:
            said = str(error).split(": line 1 ")[0]
            raise InvalidValue(
                f"input: line {number} of {path!r} is no JSON ({said}); each line is an object, as in "
                '{"k": "a", "v": 1}'
            ) from None
        if type(row) is not dict:
            instead = "; jq -c '.[]' makes lines of the objects in a list" if type(row) is list else ""
            raise InvalidType(
                f"input: line {number} of {path!r} is {KINDS.get(type(row), 'null')}; each line is an "
                f'object, as in {{"k": "a", "v": 1}}{instead}'
            )
        rows.append(row)
        lines.append(number)
        size += len(line)
        if len(rows) >= ROWS or size >= BYTES:
            yield rows, lines
            rows, lines, size = [], [], 0
    if rows:
        yield rows, lines


def column(
    name: str, rows: list[dict[str, Any]], lines: list[int], path: str, kinds: dict[str, str]
) -> pa.Array:
    """Return a field of rows as text, and note of which kinds its values are."""
    values = [row.get(name) for row in rows]
    types = set(map(type, values)) - {type(None)}
    if not kinds.keys() >= {KINDS[each] for each in types}:
        for line, value in zip(lines, values, strict=True):
            if value is not None:
                kinds.setdefault(KINDS[type(value)], f"line {line} of {path!r}")
    if types <= {int, Written}:
        values = [None if value is None else str(value) for value in values]
    elif types != {str}:
        values = [
            None if value is None else text_in(line, path, value)
            for line, value in zip(lines, values, strict=True)
        ]
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        at = next(at for at, value in enumerate(values) if value is not None and is_broken(value))
        raise half_of_a_character(lines[at], path, repr(name)) from None


def text_in(line: int, path: str, value: Any) -> str:
    """Return a value of a line as text."""
    try:
        return text_of(value)
    except RecursionError:
        raise InvalidValue(
            f"input: line {line} of {path!r} has too many lists and objects within each other"
        ) from None


def half_of_a_character(line: int, path: str, where: str) -> InvalidValue:
    """Return what is raised for a surrogate without its other half."""
    return InvalidValue(f"input: line {line} of {path!r} has half of a character in {where}; text is Unicode")


def is_broken(text: str) -> bool:
    """Whether a string has half of a pair of surrogates, as JSON can write it."""
    return any("\ud800" <= each <= "\udfff" for each in text)


def text_of(value: Any, *, inner: bool = False) -> str:
    """Return a value as text: a string as it is, but within lists and objects as JSON."""
    match value:
        case Written():
            return str(value)
        case str():
            return json.dumps(value, ensure_ascii=False) if inner else value
        case list():
            return f"[{','.join(text_of(each, inner=True) for each in value)}]"
        case dict():
            fields = (f"{json.dumps(key)}:{text_of(each, inner=True)}" for key, each in value.items())
            return f"{{{','.join(fields)}}}"
    # An int of Python as its digits, and true, false and null.
    return json.dumps(value)


def type_nested(parts: Sequence[str], names: Sequence[str]) -> None:
    """Write columns of lists and objects anew, in all files, as the types that hold all of their values."""
    shapes = {name: Shape(name) for name in names}
    for _, batch in read(parts):
        for name in set(names).intersection(batch.schema.names):
            shapes[name].see(decoded(batch.column(name)))
    types = {name: shape.type for name, shape in shapes.items()}
    for part in parts:
        typed = Path(part).with_suffix(".typed")
        with pa.memory_map(part) as source, pa.ipc.open_file(source) as file:
            schema = pa.schema([(each.name, types.get(each.name, each.type)) for each in file.schema])
            with pa.ipc.new_file(str(typed), schema) as writer:
                for at in range(file.num_record_batches):
                    batch = file.get_batch(at)
                    columns = [
                        pa.array([valued(value, each.type) for value in decoded(values)], each.type)
                        if each.name in types
                        else values
                        for each, values in zip(schema, batch.columns, strict=True)
                    ]
                    writer.write_batch(pa.record_batch(columns, schema=schema))
        typed.replace(part)


def read(parts: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the batches of Arrow files, with their paths."""
    for part in parts:
        with pa.memory_map(part) as source, pa.ipc.open_file(source) as file:
            for at in range(file.num_record_batches):
                yield part, file.get_batch(at)


def decoded(texts: pa.Array) -> list[Any]:
    """Return the values of a column of JSON."""
    return [None if text is None else DECODER.decode(text) for text in texts.to_pylist()]


class Shape:
    """What values at one place of lists and objects are, as more and more of them are seen.

    Examples
    --------
    >>> shape = Shape("v")
    >>> shape.see([{"n": 1}, {"n": None, "of": ["a"]}])
    >>> shape.type
    StructType(struct<n: int64, of: list<item: string>>)
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._kinds: set[str] = set()
        self._numbers = Inferred()
        self._fields: dict[str, Shape] = {}
        self._items: Shape | None = None

    def see(self, values: Sequence[Any]) -> None:
        """Consider more values."""
        present = [value for value in values if value is not None]
        kinds = {KINDS[each] for each in set(map(type, present))}
        self._kinds |= kinds
        if len(self._kinds) > 1:
            one, other = sorted(self._kinds)[:2]
            raise InvalidType(
                f"input: column {self._name!r} has {one} and {other} at one place of its lists and objects; "
                "values at one place are of one kind, or --types reads the whole column as a string"
            )
        if kinds == {"a number"}:
            self._numbers.see(pa.array(map(text_of, present), pa.string()))
        elif kinds == {"a list"}:
            self._items = self._items or Shape(self._name)
            self._items.see(list(chain.from_iterable(present)))
        elif kinds == {"an object"}:
            for name in dict.fromkeys(chain.from_iterable(present)):
                inner = self._fields.setdefault(name, Shape(f"{self._name}.{name}"))
                inner.see([value.get(name) for value in present])

    @property
    def type(self) -> pa.DataType:
        """The type of the values so far: null without any."""
        if not self._kinds:
            return pa.null()
        (kind,) = self._kinds
        if kind == "a number":
            return self._numbers.type
        if kind == "a list":
            return pa.list_(pa.null() if self._items is None else self._items.type)
        if kind == "an object":
            return pa.struct([(name, each.type) for name, each in self._fields.items()])
        return pa.bool_() if kind == "a boolean" else pa.string()


def valued(value: Any, kind: pa.DataType) -> Any:
    """Return a value as pyarrow takes it for a type."""
    if value is None or (type(value) is Written and value == "NaN"):
        # As among numbers of CSV.
        return None
    if pa.types.is_list(kind):
        return [valued(each, kind.value_type) for each in value]
    if pa.types.is_struct(kind):
        return {each.name: valued(value.get(each.name), each.type) for each in kind}
    if pa.types.is_floating(kind):
        return float(value)
    return text_of(value) if pa.types.is_string(kind) else value
