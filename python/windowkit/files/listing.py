"""Data files of one table: which there are, what their directories say, and which task reads which part.

`found` lists files by itself, for cases without Spark: the command line, the data source, and file
systems that only pyarrow opens.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
import warnings
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from windowkit.errors import InvalidType, InvalidValue
from windowkit.files.deleted import Deleted
from windowkit.files.text import culprit, rewritten
from windowkit.language.checks import a_type, as_given

__all__ = [
    *("NULL", "File", "Part", "Source", "check_unchanged", "constants"),
    *(
        "found",
        "is_hidden",
        "is_like_others",
        "kind_of",
        "listed",
        "opened",
        "partition_expression",
        "parts",
        "plain",
        "walked",
    ),
]

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""What a directory says of no value."""
KINDS: Final = (pa.int32(), pa.int64(), pa.decimal128(38, 0), pa.float64(), pa.date32(), pa.timestamp("s"))
"""What directories say, in the order in which it is tried; all else is a string."""
LIKE_OTHERS: Final = re.compile(
    r"\s*[+-]?(NaN|Infinity|0[xX].*|[\d.]+([eE][+-]?\d+)?[fFdD]?)\s*|\d{4}-\d{2}-\d{2}([ T].*)?"
)
"""What Spark may take for a number or a time."""
SINK_LOG: Final = "_spark_metadata"
URI: Final = re.compile(r"[A-Za-z][\w+.-]*:/", re.ASCII)
MOST_BYTES: Final = 128 << 20
"""Of a task, as Spark's ``spark.sql.files.maxPartitionBytes`` has it by default."""
OPEN_BYTES: Final = 4 << 20
"""What opening a file costs, in bytes that could have been read instead: Spark's ``openCostInBytes``."""
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
    values : tuple
        What its directories say, in the order of `Source.partitioned`; times are microseconds from 1970.
    modified, listed : int, optional
        When it was last written, as far as its file system says, and when it was found: nanoseconds from
        1970.
    deleted : Deleted, optional
        Its rows that are no longer part of the table.
    """

    path: str
    size: int
    values: tuple[Any, ...]
    modified: int | None = None
    listed: int = 0
    deleted: Deleted | None = None


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
    because: Mapping[str, str] = field(default_factory=dict)
    """The values for which columns of directories are text, by name."""

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.size for file in self.files)


def listed(paths: Any) -> list[str]:
    """Return paths as a list, of one or several.

    Raises
    ------
    InvalidType, InvalidValue
        They are not paths, or there are none.
    """
    allowed = "paths is a str, or several in a list"
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    if isinstance(several, bytes | Mapping) or not isinstance(several, Iterable):
        raise InvalidType(f"paths: {as_given(paths)} is {a_type(paths)}; {allowed}")
    given = [os.fspath(path) if isinstance(path, os.PathLike) else path for path in several]
    if not given:
        raise InvalidValue(f"paths: none are given; {allowed} of at least one")
    for path in given:
        if not isinstance(path, str):
            raise InvalidType(f"paths: {as_given(path)} is {a_type(path)}; paths are strings")
        if not path or re.search("[\0\ud800-\udfff]", path):
            raise InvalidValue(
                f"paths: {path!r} is given; a path is not empty, and has no NUL or lone surrogate"
            )
    return given


def opened(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a URI, and the path there.

    Raises
    ------
    InvalidValue
        pyarrow does not open it.
    """
    try:
        # Hadoop's names of what pyarrow calls s3.
        system, path = fs.FileSystem.from_uri(re.sub("^s3[an]:", "s3:", uri))
    except (pa.ArrowException, ImportError, ValueError, OSError) as error:
        raise InvalidValue(
            f"paths: {uri!r} cannot be opened ({str(error).splitlines()[0]}); paths are of this machine, or "
            "URIs that pyarrow opens"
        ) from None
    return system, path


def found(
    paths: str | Sequence[str],
    filesystem: fs.FileSystem | None = None,
    *,
    deep: bool = False,
    as_text: Collection[str] = (),
) -> Source:
    """Find files, and those in directories at any depth, but for hidden ones.

    Links are followed. A file with several names, such as a link to it, is found once. A link to a directory
    that it is in is not followed, and a warning names it.

    Directories named ``name=value`` add columns: of integers, decimals, floats, dates, times, or strings.
    Those of `as_text` are strings. Only with `deep` there may be other directories.

    Raises
    ------
    InvalidType, InvalidValue
        There are no such files, or their directories do not agree on columns.
    """
    given = listed(paths)
    if filesystem is not None and not isinstance(filesystem, fs.FileSystem):
        raise InvalidType(
            f"filesystem: {as_given(filesystem)} is {a_type(filesystem)}; it is a pyarrow.fs.FileSystem, or "
            "None"
        )
    if filesystem is not None and any(map(URI.match, given)):
        raise InvalidValue(
            f"paths: {given} has a URI, and filesystem= is given; a URI names its file system, so "
            "leave filesystem= out"
        )
    located = [
        (filesystem or fs.LocalFileSystem(), path if filesystem else os.path.abspath(path))
        if not URI.match(path)
        else opened(path)
        for path in given
    ]
    system = located[0][0]
    if any(not other.equals(system) for other, _ in located):
        raise InvalidValue(f"paths: {given} are on several file systems; one call reads from one")
    at = time.time_ns()
    infos: dict[Hashable, tuple[fs.FileInfo, dict[str, str]]] = {}
    for _, path in located:
        for info in below(system, path):
            inner = names_in(path, info.path)
            if inner[0] == SINK_LOG:
                raise InvalidValue(
                    f"paths: {path!r} has a {SINK_LOG}, in which Structured Streaming lists the valid "
                    "files, and which only Spark reads; use wk.spark.scan without filesystem="
                )
            if info.size and not any(map(is_hidden, inner)):
                if not deep and not all("=" in part for part in inner[:-1]):
                    raise InvalidValue(
                        f"paths: {info.path!r} is in a directory that is not named name=value, so it "
                        "is not part of the table; give its path"
                    )
                pairs = pairs_of(inner[:-1])
                other, values = infos.setdefault(identity(system, info.path), (info, pairs))
                if values != pairs:
                    raise InvalidValue(
                        f"paths: {info.path!r} is the same file as {other.path!r}, whose directories name "
                        f"{values or 'no columns'}, not {pairs or 'none'}; a file is part of a table once"
                    )
    if not infos:
        raise no_files(given)
    rows = sorted(infos.values(), key=lambda row: row[0].path)
    first, names = rows[0][0], list(rows[0][1])
    for info, others in rows:
        if list(others) != names:
            raise InvalidValue(
                f"paths: directories of {info.path!r} name columns {list(others)}, those of {first.path!r} "
                f"{names}; all files must have the same"
            )
    columns, because = [], {}
    for name in names:
        column, other = typed([values[name] for _, values in rows], KINDS if name not in as_text else ())
        columns.append(column)
        if other is not None:
            because[name] = other
    kinds = zip(names, (column.type for column in columns), strict=True)
    texts = [stored.to_pylist() for stored in map(plain, columns)]
    every = (
        File(info.path, info.size, tuple(column[row] for column in texts), info.mtime_ns, at)
        for row, (info, _) in enumerate(rows)
    )
    return Source(system, tuple(every), pa.schema(list(kinds)), because)


def no_files(given: list[str]) -> InvalidValue:
    """Return what is raised for paths without data."""
    return InvalidValue(
        f"paths: there are no files with data in {', '.join(given)}; those whose names begin with _ or . are "
        "hidden"
    )


def gone(file: File) -> InvalidValue:
    """Return what is raised for a file that was there before."""
    return InvalidValue(
        f"paths: {file.path!r} no longer exists; files must stay in place until a scan is done"
    )


def below(system: fs.FileSystem, path: str) -> list[fs.FileInfo]:
    """Return the files of a path."""
    (info,) = system.get_file_info([path])
    if info.type == fs.FileType.NotFound:
        raise InvalidValue(f"paths: {path!r} does not exist; paths are files, or directories of files")
    if info.type == fs.FileType.File:
        return [info]
    if info.type != fs.FileType.Directory:
        raise InvalidValue(
            f"paths: {path!r} is neither a file nor a directory; paths are files, or directories of files"
        )
    here = local(system, path)
    try:
        if here is None:
            every = system.get_file_info(fs.FileSelector(path, recursive=True))
        else:
            inner = (
                os.path.relpath(entry.path, here).replace(os.sep, "/")
                for directory, entries in walked(here, lambda each: key_of(names_in(here, each)))
                for entry in entries
            )
            every = system.get_file_info([f"{path.rstrip('/')}/{name}" for name in inner])
    except (pa.ArrowException, OSError) as error:
        raise InvalidValue(
            f"paths: {path!r} cannot be listed ({error}); directories must be readable"
        ) from error
    return [each for each in every if each.type == fs.FileType.File]


def walked(
    top: str, key: Callable[[str], Hashable] = lambda _: ()
) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """Yield the directories below one, links to others included, and the files in each.

    A link to a directory that it is in is not followed, and a warning names it; other directories are visited
    once for each `key` of their paths, and not at all where it is None.

    Raises
    ------
    OSError
        What there is cannot be found out: a directory may not be read, or its files not be reached.
    """
    visited = set()
    ahead: list[tuple[str, tuple[Hashable, ...]]] = [(top, ())]
    while ahead:
        path, above = ahead.pop()
        this, own = identity(fs.LocalFileSystem(), path), key(path)
        if own is not None and this in above:
            # From one line, so that several walks warn once.
            warnings.warn(
                f"paths: {path!r} is a link to a directory that it is in; it is not followed", stacklevel=1
            )
            continue
        if own is None or (this, own) in visited:
            continue
        visited.add((this, own))
        with os.scandir(path) as scanned:
            entries = [(entry, kind_of(entry.path)) for entry in sorted(scanned, key=lambda each: each.name)]
        yield path, [entry for entry, kind in entries if kind == stat.S_IFREG]
        ahead += [(entry.path, (*above, this)) for entry, kind in reversed(entries) if kind == stat.S_IFDIR]


def kind_of(path: str) -> int:
    """Return what a path leads to, as `stat.S_IFMT` has it: 0 for nothing, or links in a circle.

    Functions of `os.path` also say so of what cannot be reached, which would be left out without a word.
    """
    try:
        return stat.S_IFMT(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return 0


def local(system: fs.FileSystem, path: str) -> str | None:
    """Return the path on this machine, or None if the file system is elsewhere."""
    if isinstance(system, fs.SubTreeFileSystem):
        return local(system.base_fs, f"{system.base_path.rstrip('/')}/{path.lstrip('/')}")
    return path if isinstance(system, fs.LocalFileSystem) else None


def identity(system: fs.FileSystem, path: str) -> Hashable:
    """Return what is equal for two paths of one file or directory."""
    here = local(system, path)
    if here is None or not os.path.exists(here):
        return path
    state = os.stat(here)
    # Some file systems do not number their files.
    return (state.st_dev, state.st_ino) if state.st_ino else os.path.realpath(here)


def names_in(path: str, inner: str) -> list[str]:
    """Return the names of a path below another."""
    return inner[len(path.rstrip("/")) :].replace(os.sep, "/").strip("/").split("/")


def pairs_of(directories: Iterable[str]) -> dict[str, str]:
    """Return what the names of directories say of columns."""
    pairs = (name.partition("=") for name in directories if "=" in name)
    return {unescaped(name): unescaped(value) for name, _, value in pairs}


def unescaped(text: str) -> str:
    """Return a text without escapes such as ``%3A``."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidValue(
            f"paths: the directory of a column has {as_given(text)} in its name, whose bytes are not UTF-8"
        ) from None


def key_of(directories: list[str]) -> Hashable:
    """Return what a directory of these names says of columns; None if it is hidden, and not read."""
    if directories[0] != SINK_LOG and any(map(is_hidden, directories)):
        return None
    return tuple(pairs_of(directories).items())


def typed(texts: list[str], kinds: Sequence[pa.DataType] = KINDS) -> tuple[pa.Array, str | None]:
    """Return what directories say of a column, in the first type that writes each value as it is, or as text.

    Directories of different names are different, such as ``zip=00123`` and ``zip=123``. Of text because of a
    value, this is the second that is returned.

    Examples
    --------
    >>> typed(["7", NULL])[0].type, typed(["2024-05-01"])[0].type, typed(["7", "1.50"])[1]
    (DataType(int32), DataType(date32[day]), '1.50')
    """
    stored = pa.array([None if text == NULL else text for text in texts], pa.string())
    values = stored.unique().drop_null()
    others = {kind: rewritten(values, kind) for kind in kinds}
    found = next((kind for kind, other in others.items() if other is None), None)
    if found is None:
        return stored, culprit(values, others.values()) if others else None
    column = stored.cast(found)
    return column.cast(pa.timestamp("us")) if pa.types.is_timestamp(found) else column, None


def is_like_others(field: pa.Field, values: Iterable[Any]) -> bool:
    """Whether a column of directories is text of which Spark may make something else."""
    present = [value for value in values if value is not None]
    return pa.types.is_string(field.type) and all(map(LIKE_OTHERS.fullmatch, present))


def plain(column: pa.Array) -> pa.Array:
    """Return a column with times as numbers, as Python's own end with the year 9999."""
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def is_hidden(name: str) -> bool:
    """Whether a file or directory is hidden: not part of a table."""
    return name.startswith((".", "_")) and "=" not in name


def check_unchanged(system: fs.FileSystem, file: File) -> None:
    """Refuse a file that is no longer what it was when it was found.

    It has another size, or was written since. That it was written at another time, but before it was found,
    says nothing: workers may have copies of their own.

    Raises
    ------
    InvalidValue
        It has changed, or is gone.
    """
    (info,) = system.get_file_info([file.path])
    if info.type == fs.FileType.NotFound:
        raise gone(file)
    # Stores of objects report one time in whole seconds here and in parts of them there.
    unit = 1 if isinstance(system, fs.LocalFileSystem) else 10**9
    written = (
        info.mtime_ns is not None
        and file.modified is not None
        and info.mtime_ns // unit != file.modified // unit
        and info.mtime_ns >= file.listed - CLOCKS
    )
    if info.size != file.size or written:
        raise InvalidValue(
            f"paths: {file.path!r} has changed since the scan was created; files must not change until "
            "a scan is done"
        )


def constants(file: File, partitioned: pa.Schema) -> dict[str, pa.Scalar]:
    """Return the values of the columns of a file's directories."""
    values = zip(partitioned, file.values, strict=True)
    return {field.name: pa.scalar(value, field.type) for field, value in values}


def partition_expression(file: File, partitioned: pa.Schema) -> ds.Expression:
    """Return what holds of all rows of a file, as its directories say it."""
    holds = ds.scalar(True)
    for name, value in constants(file, partitioned).items():
        holds &= ds.field(name) == value if value.is_valid else ds.field(name).is_null()
    return holds


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
