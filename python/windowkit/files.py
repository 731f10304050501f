"""Which Parquet files there are, and which task reads which part.

Files are found as Spark does it, those of Hive-style directories (``day=2024-05-01``) among them; so a scan
reads what ``spark.read.parquet`` of the same paths would.
"""

from __future__ import annotations

import fnmatch
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from windowkit.directories import NULL, Inference, Value, typed, unescaped
from windowkit.errors import InvalidType, InvalidValue

__all__ = ["File", "Part", "Source", "check_unchanged", "constants", "found", "parts", "said"]

PATTERN: Final = re.compile(r"[*?\[{]")
BRACES: Final = re.compile(r"\{([^{}]*)\}")
MOST_BYTES: Final = 128 << 20
"""Of a task, as Spark's ``spark.sql.files.maxPartitionBytes`` has it by default."""
OPEN_BYTES: Final = 4 << 20
"""What opening a file costs, in bytes that could have been read instead: Spark's ``openCostInBytes``."""
Listed: TypeAlias = tuple[fs.FileInfo, dict[str, str]]
"""A file, and what its directories say."""
CLOCKS: Final = 2 * 10**9
"""Nanoseconds that clocks of machines may be apart."""


@dataclass(frozen=True)
class File:
    """A file as it was found.

    Parameters
    ----------
    path : str
    size : int
        Bytes.
    values : tuple of Value
        Of its directories, in the order of `Source.partitioned`.
    modified, listed : int, optional
        When it was last written, as far as its file system tells, and when it was found: nanoseconds from
        1970.
    """

    path: str
    size: int
    values: tuple[Value, ...]
    modified: int | None = None
    listed: int = 0


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


def found(
    paths: str | Sequence[str],
    filesystem: fs.FileSystem | None,
    *,
    how: Inference | None = None,
    deep: bool = False,
) -> Source:
    """Find the files of `paths`.

    Parameters
    ----------
    paths : str or sequence of str
        Files, or directories of files, or of directories ``name=value`` at any depth; ``*``, ``?``,
        ``[...]`` and ``{...}`` stand for several. Without `filesystem` URIs that pyarrow opens
        (``s3://...``), or paths of this machine.
    filesystem : pyarrow.fs.FileSystem, optional
    how : Inference, optional
        What types columns of directories have: by default those that Spark infers, but for times.
    deep : bool, default False
        Whether files in directories that are not named ``name=value`` belong to the table, too; not to Spark.

    Raises
    ------
    InvalidType, InvalidValue
        There are no such files, or their directories do not agree on columns.
    """
    given = listed(paths)
    if filesystem is not None and not isinstance(filesystem, fs.FileSystem):
        raise InvalidType(
            f"filesystem: {filesystem!r} is a {type(filesystem).__name__}; it is a pyarrow.fs.FileSystem, or "
            "None"
        )
    opened = [located(path, filesystem) for path in given]
    system = opened[0][0]
    if any(not other.equals(system) for other, _ in opened):
        raise InvalidValue(f"paths: {given} are on several file systems; a scan reads from one")
    every: list[Listed] = []
    listed_at = time.time_ns()
    try:
        for _, path in opened:
            for each in matching(system, path):
                every += below(system, each, deep)
    except (pa.ArrowException, OSError) as error:
        raise InvalidValue(
            f"paths: files of {', '.join(map(str, given))} cannot be listed ({error}); directories are "
            "readable"
        ) from error
    # A path may be given twice, or beside a directory that it is in.
    by_path = {info.path: (info, values) for info, values in every}
    every = [by_path[path] for path in sorted(by_path)]
    if not every:
        raise InvalidValue(f"paths: there are no files with data in {', '.join(map(str, given))}")
    names = list(every[0][1])
    first = every[0][0].path
    for info, values in every:
        if list(values) != names:
            raise InvalidValue(
                f"paths: directories of {info.path!r} name columns {list(values)}, those of {first!r} "
                f"{names}; all files have the same"
            )
    columns = {name: typed(name, [values[name] for _, values in every], how or Inference()) for name in names}
    files = (
        File(info.path, info.size, tuple(columns[name][1][at] for name in names), info.mtime_ns, listed_at)
        for at, (info, _) in enumerate(every)
    )
    schema = pa.schema([(name, kind) for name, (kind, _) in columns.items()])
    return Source(system, tuple(files), schema)


def listed(paths: Any) -> list[Any]:
    """Return paths as a list, of one or several."""
    allowed = "paths is a str, or several in a list"
    if isinstance(paths, str | os.PathLike):
        return [paths]
    if isinstance(paths, bytes | Mapping) or not isinstance(paths, Iterable):
        raise InvalidType(f"paths: {paths!r} is a {type(paths).__name__}; {allowed}")
    given = list(paths)
    if not given:
        raise InvalidValue(f"paths: none are given; {allowed} of at least one")
    return given


def located(path: Any, filesystem: fs.FileSystem | None) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path, and the path there."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(text, str):
        raise InvalidType(f"paths: {path!r} is a {type(path).__name__}; paths are strings")
    if not text or re.search("[\0\ud800-\udfff]", text):
        raise InvalidValue(
            f"paths: {text!r} is given; a path has at least one character, and no NUL or half a "
            "surrogate pair"
        )
    if filesystem is not None:
        return filesystem, text.rstrip("/")
    if re.match(r"[A-Za-z][\w+.-]*:", text) is None:
        return fs.LocalFileSystem(), os.path.abspath(text)
    # Hadoop's name of what pyarrow calls s3.
    uri = re.sub(r"^s3[an]://", "s3://", text)
    try:
        system, there = fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, ValueError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidValue(
            f"paths: {text!r} cannot be opened ({reason}); paths are of this machine, or URIs that pyarrow "
            "opens"
        ) from None
    return system, there


def matching(system: fs.FileSystem, path: str) -> list[str]:
    """Return what a path with ``*``, ``?``, ``[...]`` or ``{...}`` stands for; itself, if it is there."""
    if not PATTERN.search(path) or system.get_file_info([path])[0].type != fs.FileType.NotFound:
        return [path]
    several = [
        each
        for one in unbraced(path)
        for each in (matches(system, one) if PATTERN.search(one) else existing(system, one))
    ]
    if not several:
        raise InvalidValue(f"paths: nothing matches {path!r}")
    return several


def unbraced(path: str) -> list[str]:
    """Return the patterns that one with ``{a,b}`` stands for, as Hadoop has it."""
    found = BRACES.search(path)
    if found is None:
        return [path]
    return [
        each
        for choice in found[1].split(",")
        for each in unbraced(path[: found.start()] + choice + path[found.end() :])
    ]


def existing(system: fs.FileSystem, path: str) -> list[str]:
    """Return a path if it is there."""
    return [] if system.get_file_info([path])[0].type == fs.FileType.NotFound else [path]


def matches(system: fs.FileSystem, path: str) -> list[str]:
    """Return what is there of a pattern."""
    # Hadoop negates by ^ what Python does by !.
    steps = path.replace("[^", "[!").split("/")
    first = next(at for at, step in enumerate(steps) if PATTERN.search(step))
    there = ["/".join(steps[:first]) or "/"]
    for step in steps[first:]:
        inside: list[fs.FileInfo] = []
        for each in there:
            inside += system.get_file_info(fs.FileSelector(each, allow_not_found=True))
        there = [
            info.path
            for info in inside
            if fnmatch.fnmatchcase(info.base_name, step) and not is_hidden(info.base_name)
        ]
    return there


def below(system: fs.FileSystem, path: str, deep: bool) -> list[Listed]:
    """Return the files of a path and what directories say, without those that Spark hides.

    Where no directory says anything, only the files of `path` itself are meant, as Spark has it; unless
    `deep` is set.
    """
    (info,) = system.get_file_info([path])
    if info.type == fs.FileType.NotFound:
        raise InvalidValue(f"paths: {path!r} does not exist; paths are files, or directories of files")
    if info.type == fs.FileType.File:
        return [(info, {})] if info.size else []
    files: list[Listed] = []
    nested: list[Listed] = []
    for each in system.get_file_info(fs.FileSelector(path, recursive=True)):
        inner = each.path[len(info.path) :].strip("/").split("/")
        if each.type != fs.FileType.File or not each.size or any(map(is_hidden, inner)):
            continue
        pairs = (part.partition("=") for part in inner[:-1] if "=" in part)
        values = {unescaped(name): value for name, _, value in pairs}
        for name, value in values.items():
            if not value:
                raise InvalidValue(
                    f"paths: directories of {each.path!r} say {name}= without a value; no value is {NULL}"
                )
        (nested if len(inner) > 1 and not values else files).append((each, values))
    if deep or any(values for _, values in files):
        return files + nested
    if nested and not files:
        raise InvalidValue(
            f"paths: there are no files in {path!r} itself, and directories in it such as that of "
            f"{nested[0][0].path!r} are not named name=value; give their paths"
        )
    return files


def check_unchanged(system: fs.FileSystem, file: File) -> None:
    """Refuse a file that is no longer what it was when it was found.

    It has another size, or was written since. That it was written at another time, but before it was found,
    tells nothing: workers may have copies of their own.

    Raises
    ------
    InvalidValue
        It has changed, or is gone.
    """
    (info,) = system.get_file_info([file.path])
    if info.type == fs.FileType.NotFound:
        raise InvalidValue(f"paths: {file.path!r} is there no longer; files of a scan stay until it is done")
    # Stores of objects tell of one time in whole seconds here and in parts of them there.
    unit = 1 if isinstance(system, fs.LocalFileSystem) else 10**9
    written = (
        info.mtime_ns is not None
        and file.modified is not None
        and info.mtime_ns // unit != file.modified // unit
        and info.mtime_ns >= file.listed - CLOCKS
    )
    if info.size != file.size or written:
        raise InvalidValue(
            f"paths: {file.path!r} has changed since the scan was made; files of a scan stay as they are "
            "until it is done"
        )


def constants(file: File, partitioned: pa.Schema) -> dict[str, pa.Scalar]:
    """Return the values of the columns of a file's directories."""
    values = zip(partitioned, file.values, strict=True)
    return {field.name: pa.scalar(value, field.type) for field, value in values}


def said(file: File, partitioned: pa.Schema) -> ds.Expression:
    """Return what holds of all rows of a file, as its directories say it."""
    holds = ds.scalar(True)
    for name, value in constants(file, partitioned).items():
        holds &= ds.field(name) == value if value.is_valid else ds.field(name).is_null()
    return holds


def is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


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
