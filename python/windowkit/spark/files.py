"""Which Parquet files there are, what their directories say, and which task reads which part.

Files are found, and columns of Hive-style directories (``day=2024-05-01``) typed, as Spark does it; so a scan
reads what ``spark.read.parquet`` of the same paths would.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from windowkit.errors import InvalidType, InvalidValue

__all__ = ["File", "Part", "Source", "found", "parts"]

Value = int | float | date | str | None

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
MOST_BYTES: Final = 128 << 20
"""Of a task, as Spark's ``spark.sql.files.maxPartitionBytes`` has it by default."""
OPEN_BYTES: Final = 4 << 20
"""What opening a file costs, in bytes that could have been read instead: Spark's ``openCostInBytes``."""


@dataclass(frozen=True)
class File:
    """A file, its size in bytes, and the values of its directories, in the order of `Source.partitioned`."""

    path: str
    size: int
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Part:
    """Bytes ``[start, end)`` of a file: the row groups whose middle lies there."""

    file: File
    start: int
    end: int


@dataclass(frozen=True)
class Source:
    """Files of one table, sorted by path, and the columns that their directories add."""

    filesystem: fs.FileSystem
    files: tuple[File, ...]
    partitioned: pa.Schema

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.size for file in self.files)


def found(paths: str | Sequence[str], filesystem: fs.FileSystem | None) -> Source:
    """Find the files of `paths`.

    Parameters
    ----------
    paths : str or sequence of str
        Files, or directories of files at any depth. Without `filesystem` URIs that pyarrow opens
        (``s3://...``), or paths of this machine.
    filesystem : pyarrow.fs.FileSystem, optional

    Raises
    ------
    InvalidType, InvalidValue
        There are no such files, or their directories do not agree on columns.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise InvalidValue("paths: none are given; at least one path is")
    if filesystem is not None and not isinstance(filesystem, fs.FileSystem):
        raise InvalidType(
            f"filesystem: {filesystem!r} is a {type(filesystem).__name__}; it is a pyarrow.fs.FileSystem, or "
            "None"
        )
    opened = [located(path, filesystem) for path in given]
    system = opened[0][0]
    if any(not other.equals(system) for other, _ in opened):
        raise InvalidValue(f"paths: {given} are on several file systems; a scan reads from one")
    listed: list[tuple[str, int, dict[str, str]]] = []
    for _, path in opened:
        listed += below(system, path)
    # A path may be given twice, or beside a directory that it is in.
    by_path = {path: (path, size, values) for path, size, values in listed}
    listed = [by_path[path] for path in sorted(by_path)]
    if not listed:
        raise InvalidValue(f"paths: there are no files in {', '.join(map(str, given))}")
    names = list(listed[0][2])
    for path, _, values in listed:
        if list(values) != names:
            raise InvalidValue(
                f"paths: directories of {path!r} name columns {list(values)}, those of {listed[0][0]!r} "
                f"{names}; all files have the same"
            )
    columns = {name: typed(name, [values[name] for _, _, values in listed]) for name in names}
    files = (
        File(path, size, tuple(columns[name][1][at] for name in names))
        for at, (path, size, _) in enumerate(listed)
    )
    schema = pa.schema([(name, kind) for name, (kind, _) in columns.items()])
    return Source(system, tuple(files), schema)


def located(path: str | os.PathLike[str], filesystem: fs.FileSystem | None) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path, and the path there."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidType(f"paths: {path!r} is a {type(path).__name__}; paths are strings")
    text = os.fspath(path)
    if filesystem is not None:
        return filesystem, text.rstrip("/")
    if re.match(r"[A-Za-z][\w+.-]*:", text) is None:
        return fs.LocalFileSystem(), os.path.abspath(text)
    # Hadoop's name of what pyarrow calls s3.
    uri = re.sub(r"^s3[an]://", "s3://", text)
    try:
        system, there = fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, ValueError) as error:
        raise InvalidValue(
            f"paths: {text!r} cannot be opened ({error}); paths are of this machine, or URIs that pyarrow "
            "opens"
        ) from None
    return system, there


def below(system: fs.FileSystem, path: str) -> list[tuple[str, int, dict[str, str]]]:
    """Return the files of a path with sizes and what directories say, without those that Spark hides."""
    (info,) = system.get_file_info([path])
    if info.type == fs.FileType.NotFound:
        raise InvalidValue(f"paths: {path!r} does not exist; paths are files, or directories of files")
    if info.type == fs.FileType.File:
        return [(info.path, info.size, {})]
    files = []
    for each in system.get_file_info(fs.FileSelector(path, recursive=True)):
        inner = each.path[len(info.path) :].strip("/").split("/")
        if each.type == fs.FileType.File and each.size and not any(map(is_hidden, inner)):
            pairs = (part.partition("=") for part in inner[:-1] if "=" in part)
            values = {unquote(name): unquote(value) for name, _, value in pairs}
            for name, value in values.items():
                if not value:
                    raise InvalidValue(
                        f"paths: directories of {each.path!r} say {name}= without a value; no value is {NULL}"
                    )
            files.append((each.path, each.size, values))
    return files


def is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def typed(name: str, texts: list[str]) -> tuple[pa.DataType, list[Value]]:
    """Return the type of a column of directories as Spark infers it, and its values.

    Raises
    ------
    InvalidType
        Spark would make decimals or timestamps of the values, of which there are many forms.
    """
    kinds = {kind_of(name, text) for text in texts if text != NULL}
    convert: type[int] | type[float] | type[str] | None
    if kinds <= {"int"}:
        kind, convert = pa.int32() if kinds else pa.null(), int
    elif kinds <= {"int", "long"}:
        kind, convert = pa.int64(), int
    elif kinds <= {"int", "double"}:
        kind, convert = pa.float64(), float
    elif kinds == {"date"}:
        kind, convert = pa.date32(), None
    else:
        kind, convert = pa.string(), str
    values: list[Value] = []
    for text in texts:
        if text == NULL:
            values.append(None)
        else:
            values.append(date.fromisoformat(text) if convert is None else convert(text))
    return kind, values


def kind_of(name: str, text: str) -> str:
    if re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        number = int(text)
        if -(2**63) <= number < 2**63:
            return "int" if -(2**31) <= number < 2**31 else "long"
    elif re.fullmatch(r"[+-]?(\d+\.\d*|\.\d+)", text, re.ASCII):
        return "double"
    elif re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        try:
            date.fromisoformat(text)
        except ValueError:
            return "string"
        return "date"
    elif not re.fullmatch(r"[+-]?\d*\.?\d+[eE][+-]?\d+|\d{4}-\d{1,2}(-\d{1,2}.*)?", text, re.ASCII):
        return "string"
    raise InvalidType(
        f"paths: a directory says {name}={text}, of which Spark makes a decimal or a timestamp; scan knows "
        "directories of integers, plain fractions, dates (2024-05-01) and text"
    )


def parts(source: Source, parallelism: int) -> list[tuple[Part, ...]]:
    """Deal the bytes of all files out to tasks, as Spark does: large files cut, small ones put together.

    Parameters
    ----------
    source : Source
    parallelism : int
        Tasks there should be, if files are large enough.

    Examples
    --------
    >>> one, ten = File("a", 1 << 20, ()), File("b", 300 << 20, ())
    >>> tasks = parts(Source(fs.LocalFileSystem(), (one, ten), pa.schema([])), 2)
    >>> [[(part.file.path, part.end - part.start >> 20) for part in task] for task in tasks]
    [[('b', 128)], [('b', 128)], [('b', 44), ('a', 1)]]
    """
    total = source.bytes + OPEN_BYTES * len(source.files)
    most = min(MOST_BYTES, max(OPEN_BYTES, total // max(parallelism, 1)))
    cut = [
        Part(file, start, min(start + most, file.size))
        for file in source.files
        for start in range(0, file.size, most)
    ]
    cut.sort(key=lambda part: part.start - part.end)
    tasks: list[list[Part]] = []
    size = most + 1
    for part in cut:
        length = part.end - part.start
        if size + length > most:
            tasks.append([])
            size = 0
        tasks[-1].append(part)
        size += length + OPEN_BYTES
    return [tuple(task) for task in tasks]
