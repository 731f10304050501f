"""Which Parquet files there are, and which task reads which part.

Files are found as Spark does it, those of Hive-style directories (``day=2024-05-01``) among them; so a scan
reads what ``spark.read.parquet`` of the same paths would. `windowkit.paths` says what a path stands for.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from windowkit.directories import NULL, Inference, Value, typed, unescaped
from windowkit.errors import InvalidType, InvalidValue
from windowkit.paths import listed, located, matching

__all__ = ["File", "Part", "Source", "check_unchanged", "constants", "found", "parts", "said"]

SINK_LOG: Final = "_spark_metadata"
SUMMARIES: Final = ("_metadata", "_common_metadata")
"""Files that say what columns a table has, and have no rows; Spark asks the last one first."""
MOST_BYTES: Final = 128 << 20
"""Of a task, as Spark's ``spark.sql.files.maxPartitionBytes`` has it by default."""
OPEN_BYTES: Final = 4 << 20
"""What opening a file costs, in bytes that could have been read instead: Spark's ``openCostInBytes``."""
Listed: TypeAlias = tuple[fs.FileInfo, dict[str, str] | None]
"""A file, and what its directories say; None if it tells of columns only, and its rows are not read."""
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
    """Files of one table, sorted by path, and the columns that their directories add.

    Parameters
    ----------
    filesystem : pyarrow.fs.FileSystem
    files : tuple of File
    partitioned : pyarrow.Schema
    beside : tuple of File
        Those that tell of columns only, sorted by path, too: summaries, and files beside directories
        ``name=value``.
    """

    filesystem: fs.FileSystem
    files: tuple[File, ...]
    partitioned: pa.Schema
    beside: tuple[File, ...] = ()

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.size for file in self.files)

    def describing(self, merged: bool) -> tuple[File, ...]:
        """Return the files that say what columns there are: all if they are `merged`, else one.

        That is a ``_common_metadata``, else a ``_metadata``, else the file of rows whose path sorts first, as
        Spark's `ParquetUtils.inferSchema` has it.
        """
        kinds: dict[str, list[File]] = {name: [] for name in ("", *SUMMARIES)}
        for file in sorted((*self.files, *self.beside), key=lambda file: file.path):
            name = file.path.rpartition("/")[2]
            kinds[name if name in SUMMARIES else ""].append(file)
        if merged:
            return tuple(file for files in kinds.values() for file in files)
        return tuple(next(filter(None, reversed(kinds.values())))[:1])


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
        Files, or directories of files, or of directories ``name=value`` at any depth, as `windowkit.paths`
        has them.
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
    how = how or Inference()
    opened = [located(path, filesystem) for path in given]
    system = opened[0][0]
    if any(not other.equals(system) for other, _ in opened):
        raise InvalidValue(f"paths: {given} are on several file systems; a scan reads from one")
    every: list[Listed] = []
    listed_at = time.time_ns()
    try:
        roots = {each: None for _, path in opened for each in matching(system, path)}
        for root in roots:
            every += below(system, root, deep, roots)
    except (pa.ArrowException, OSError) as error:
        raise InvalidValue(
            f"paths: files of {', '.join(map(str, given))} cannot be listed ({error}); directories are "
            "readable"
        ) from error
    # A file may be given beside a directory that it is in, which then does not say what columns it has.
    every.sort(key=lambda each: (each[0].path, -len(each[1] or ())))
    by_path = {info.path: (info, values) for info, values in every}
    rows = [(info, values) for info, values in by_path.values() if values is not None]
    if not rows:
        raise InvalidValue(
            f"paths: there are no files with data in {', '.join(map(str, given))}; those whose names begin "
            "with _ or . are hidden"
        )
    names = agreed(rows, how.any_case)
    texts = [list(values.values()) for _, values in rows]
    columns = [typed(name, [each[at] for each in texts], how) for at, name in enumerate(names)]
    files = (
        File(info.path, info.size, tuple(values[at] for _, values in columns), info.mtime_ns, listed_at)
        for at, (info, _) in enumerate(rows)
    )
    beside = (
        File(info.path, info.size, (), info.mtime_ns, listed_at)
        for info, values in by_path.values()
        if values is None
    )
    schema = pa.schema([(name, kind) for name, (kind, _) in zip(names, columns, strict=True)])
    return Source(system, tuple(files), schema, tuple(beside))


def agreed(rows: Sequence[tuple[fs.FileInfo, dict[str, str]]], any_case: bool) -> list[str]:
    """Return the columns that directories name, as those of the first file do."""
    first, values = rows[0]
    names = list(values)
    alike = [name.lower() for name in names]
    for info, values in rows:
        others = list(values)
        if others != names and not (any_case and [name.lower() for name in others] == alike):
            raise InvalidValue(
                f"paths: directories of {info.path!r} name columns {others}, those of {first.path!r} "
                f"{names}; all files have the same"
            )
    return names


def below(system: fs.FileSystem, path: str, deep: bool, roots: Collection[str]) -> list[Listed]:
    """Return the files of a path and what directories say, without those that Spark hides.

    Those in directories that are among `roots`, too, are theirs. Where no directory says anything, only the
    files of `path` itself are meant, as Spark has it, and where those in it do, only theirs; unless `deep` is
    set.
    """
    (info,) = system.get_file_info([path])
    if info.type == fs.FileType.NotFound:
        raise InvalidValue(f"paths: {path!r} does not exist; paths are files, or directories of files")
    if info.type == fs.FileType.File:
        if info.base_name in SUMMARIES and not deep:
            return [(info, None)]
        return [(info, {})] if info.size and (deep or not is_hidden(info.base_name)) else []
    # What is in the directory itself, in those in it that say something, and in others.
    own: list[Listed] = []
    saying: list[Listed] = []
    nested: list[Listed] = []
    summaries: list[tuple[Listed, bool]] = []
    apart = False
    for each in system.get_file_info(fs.FileSelector(path, recursive=True)):
        *inner, name = each.path[len(info.path) :].strip("/").split("/")
        if name == SINK_LOG and not inner:
            raise InvalidValue(
                f"paths: {path!r} has a {SINK_LOG}, by which Structured Streaming says which of its files "
                "count, and which windowkit does not read; take query.run(spark.read.parquet(path)), or give "
                "the files"
            )
        if each.type != fs.FileType.File or any(map(is_hidden, inner)):
            continue
        if len(roots) > 1 and any(directory in roots for directory in between(path, inner)):
            continue
        if name in SUMMARIES and not deep:
            summaries.append(((each, None), not inner))
        elif each.size and not is_hidden(name):
            depth, values = saying_of(inner, each.path)
            apart |= depth > 0
            (saying if values else nested if inner else own).append((each, values))
    if deep:
        return own + saying + nested
    if saying:
        # Spark asks files beside directories that say something for columns, but does not read their rows.
        own = own if apart or nested else [(each, None) for each, _ in own]
        return own + saying + nested + [summary for summary, _ in summaries]
    if nested and not own:
        raise InvalidValue(
            f"paths: there are no files in {path!r} itself, and directories in it such as that of "
            f"{nested[0][0].path!r} are not named name=value; give their paths"
        )
    return own + [summary for summary, here in summaries if here]


def between(path: str, inner: Sequence[str]) -> Iterator[str]:
    """Return the directories in a path that a file in it is in."""
    steps = [path.rstrip("/"), *inner]
    return ("/".join(steps[:end]) for end in range(2, len(steps) + 1))


def saying_of(inner: Sequence[str], path: str) -> tuple[int, dict[str, str]]:
    """Return what directories of a file say, and the depth of the one that the first of these is in.

    Those count that are next to each other, up from the innermost one, as in Spark's `parsePartition`.
    """
    end = next((at for at in range(len(inner), 0, -1) if "=" in inner[at - 1]), 0)
    start = next((at for at in range(end, 0, -1) if "=" not in inner[at - 1]), 0)
    pairs = (part.partition("=") for part in inner[start:end])
    values = {unescaped(name): value for name, _, value in pairs}
    for name, value in values.items():
        if not value:
            raise InvalidValue(
                f"paths: directories of {path!r} say {name}= without a value; no value is {NULL}"
            )
    return start, values


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
