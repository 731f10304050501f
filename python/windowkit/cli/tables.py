"""The table that input files are, whichever engine reads it: its files, its columns, and their types.

Columns of CSV files are text. Before any row is used, those that a job reads are read once as text, a block
at a time, and all of their values decide their types (`windowkit.files.text`). Then rows are read again, and
their text is read as these types. What a job reads of lines of JSON is copied to Arrow files first
(`windowkit.files.json_lines`), in which numbers are text, too.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.fs as fs

from windowkit.arrow.schemas import united
from windowkit.cli.failing import UNREADABLE, failed
from windowkit.cli.paths import ArgumentsError
from windowkit.errors import WindowKitError
from windowkit.files import listing
from windowkit.files.comparisons import compared, parse
from windowkit.files.json_lines import copied
from windowkit.files.text import Inferred, Text, is_text, type_named
from windowkit.language.checks import suggested
from windowkit.language.windows import unquoted

__all__ = ["Files", "Reads", "Table", "checked", "chosen_of", "dataset", "parsed_types", "table_of"]

INPUTS: Final = {
    # Without the unit nanoseconds wrap, which hold no time after 2262.
    "parquet": ds.ParquetFileFormat(coerce_int96_timestamp_unit="us"),
    # An empty string is one in quotes; nothing at all is null.
    "csv": ds.CsvFileFormat(
        convert_options=pyarrow.csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
        )
    ),
    **dict.fromkeys(("arrow", "jsonl"), ds.IpcFileFormat()),
}
"""How files of a format are read; those of JSON as what they are copied to."""
TYPE: Final = re.compile(r"(?P<name>`(?:[^`]|``)*`|[^`=]+)=(?P<type>[^=]+)")
SIDE: Final = re.compile("-*(left|right|labels)[_-]|within:")
"""What errors of an argument of one of two inputs begin with, or of the first and perhaps the second."""
BEGIN: Final = 4096
"""How many bytes of a file are read to tell whether it is text."""

TIMED: Final = re.compile(
    r"column '(?P<name>.*)' is (?P<type>\w+)(?P<allowed>; a time column is a [^;]*)", re.DOTALL
)
COUNTED: Final = re.compile(r"is a duration, but column '(?P<name>.*)' is an integer", re.DOTALL)
ZONES: Final = ", where some times have a zone and some have none"
TEXTS: Final = ("string", "large_string", "string_view", "dictionary")
PADDED: Final = "(^|[^0-9])0+([0-9])"


@dataclass(frozen=True)
class Reads:
    """What a job reads of an input.

    Parameters
    ----------
    by : tuple of str
        Its keys.
    time : str
    columns : tuple of str, optional
        The columns that it reads, with keys and time; all there are by default.
    """

    by: tuple[str, ...]
    time: str
    columns: tuple[str, ...] | None = None

    def of(self, names: Sequence[str]) -> list[str]:
        """Return the columns that are read of those that there are, even if one of them is not there."""
        return list(names if self.columns is None else dict.fromkeys(self.columns))


@dataclass(frozen=True)
class Table:
    """The rows of files, in which text is text, and the types that a job sees.

    Parameters
    ----------
    data : pyarrow.dataset.Dataset
    schema : pyarrow.Schema
        All columns, with the types that a job sees.
    texts : dict
        How columns of text are read, by name.
    because : dict of str to str
        The values for which columns remained text, by name.
    reasons : dict of str to str
        What errors say of these: which value it is, and in which file.
    directories : tuple of str
        The columns that a job reads of the names of directories.
    origins : dict of str to str
        The files that others are copies of.
    """

    data: ds.Dataset
    schema: pa.Schema
    texts: Mapping[str, Text] = field(default_factory=dict)
    because: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    directories: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)

    def expression(self, name: str) -> ds.Expression:
        """Return a column with the type that a job sees."""
        kind, column = self.schema.field(name).type, ds.field(name)
        if name in self.texts:
            return self.texts[name].read(column)
        return column if kind == self.data.schema.field(name).type else column.cast(kind)

    def batches(
        self, names: Sequence[str], filters: Sequence[str], fragments: ds.Dataset | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that all filters hold of, of some columns; of part of the files, if it is given."""
        before, after = chosen_of(filters, self)
        also = [name for name, _, _ in map(parse, filters) if name not in names] if after is not None else []
        columns = {name: self.expression(name) for name in [*names, *also]}
        data = fragments or self.data
        try:
            for batch in data.scanner(columns=columns, filter=before).to_batches():
                if after is None:
                    yield batch
                    continue
                yield from pa.Table.from_batches([batch]).filter(after).select(names).to_batches()
        except UNREADABLE as error:
            raise failed(data, columns, self.schema, self.origins, error) from None

    def explain(self) -> list[str]:
        """Return a line about each column of text, or of directories, that a job reads."""
        read = {
            name: f"text read as {text.type}" + (f", as {text.time_format!r}" if text.time_format else "")
            for name, text in self.texts.items()
        }
        own = {name: f"directories read as {self.schema.field(name).type}" for name in self.directories}
        return [
            f"column {name!r}: {said}"
            + (f", because of {self.because[name]!r}" if name in self.because else "")
            for name, said in (own | read).items()
        ]


def checked(tables: Sequence[Table], bind: Callable[[], object]) -> None:
    """Have a job check its columns; its error says of one that is text which value has made it so.

    What it advises about a time column is what the command line has, not what Python has.
    """
    try:
        bind()
    except (ArgumentsError, WindowKitError) as error:
        said = str(error)
        before = f"{side[1] or 'left'}-" if (side := SIDE.match(said)) else ""
        types, form = (f"--{before}{each}" for each in ("types", "time-format"))
        reason = next(
            (
                f"{name!r} is text because of {why}"
                for table in tables
                for name, why in table.reasons.items()
                if f"column {name!r}" in said
            ),
            None,
        )
        count = f"{types} '{{}}=timestamp[s, UTC]' reads whole numbers as seconds from 1970"
        if of_time := TIMED.search(said):
            said = said[: of_time.end("allowed")]
            how = [count.format(of_time["name"])]
            if of_time["type"] in TEXTS:
                how.insert(0, f"{form} '%d/%m/%Y %H:%M' reads text of that form")
            if reason is not None and reason.endswith(ZONES):
                how = ["all times have a zone, or none has"]
        elif of_count := COUNTED.search(said):
            how = [count.format(of_count["name"])]
        elif reason is not None:
            how = [f"see {types}"]
        else:
            raise
        raise ArgumentsError("; ".join([said, *([reason] if reason else []), *how])) from None


@dataclass(frozen=True)
class Files:
    """Files as one dataset, in which the columns of CSV files are text.

    Parameters
    ----------
    data : pyarrow.dataset.Dataset
    kind : str
        Their format.
    partitioned : pyarrow.Schema
        Columns of their directories.
    directories : dict of str to list
        The values of these columns, file by file.
    because : dict of str to str
        The values for which these columns are text, by name.
    origins : dict of str to str
        The files that others are copies of.
    untyped : frozenset of str
        The columns that are text only as the format says no type.
    is_mixed : bool
        Whether files differ in the columns that the job reads.
    """

    data: ds.Dataset
    kind: str
    partitioned: pa.Schema
    directories: Mapping[str, list[Any]]
    because: Mapping[str, str]
    origins: Mapping[str, str]
    untyped: frozenset[str]
    is_mixed: bool


def dataset(
    paths: Sequence[Path],
    kind: str,
    reads: Reads,
    filters: Sequence[str],
    types: Collection[str],
    folder: Callable[[], Path],
) -> Files:
    """Return the files of paths as one table, with columns of their directories.

    Of the columns that a job reads, types are united before any row is read; those of lines of JSON are
    copied to a folder.
    """
    source = listing.found([str(path.absolute()) for path in paths], deep=True, as_text=types)
    form = INPUTS[kind]
    filtered = [parse(each)[0] for each in filters]
    parts, origins = [[file.path] for file in source.files], {}
    if kind == "jsonl":
        whole = None if reads.columns is None else {*reads.columns, *filtered}
        lines = copied([file.path for file in source.files], source.filesystem, folder(), whole, types)
        parts = lines.parts
        origins = {path: file.path for file, own in zip(source.files, parts, strict=True) for path in own}
    fragments = [
        form.make_fragment(
            path,
            source.filesystem,
            partition_expression=listing.partition_expression(file, source.partitioned),
        )
        for file, own in zip(source.files, parts, strict=True)
        for path in own
    ]
    try:
        schemas = {each.path: each.physical_schema for each in fragments}
    except pa.ArrowInvalid as error:
        if kind == "csv":
            for each in fragments:
                check_text(each.path, source.filesystem)
        if kind != "arrow":
            raise
        raise ArgumentsError(
            f"--input: {error}; files of Arrow's file format are read, as --output writes them, and no "
            "streams, as they are written to stdout"
        ) from None
    if kind == "csv":
        schemas = {path: of_text(path, each) for path, each in schemas.items()}
    first = {each.name: each.type for schema in reversed(schemas.values()) for each in schema}
    # What directories say goes before a column of that name in files, whatever type that has.
    if kind == "jsonl":
        # Fields that are not copied are there, too.
        first = dict.fromkeys(lines.kinds, pa.string()) | first
    names = first
    own = [name for name in names if name not in source.partitioned.names]
    # Columns that nobody asks for may be anything.
    asked = {*reads.of([*own, *source.partitioned.names]), *filtered}
    kinds = {name: united(schemas, name) if name in asked else first[name] for name in own}
    schema = pa.schema([*kinds.items(), *source.partitioned])
    data = ds.FileSystemDataset(fragments, schema, form, source.filesystem)
    is_mixed = any(
        each.get_field_index(name) < 0 or each.field(name).type != kinds[name]
        for each in schemas.values()
        for name in asked.intersection(kinds)
    )
    values = zip(*(file.values for file in source.files), strict=True)
    directories = dict(zip(source.partitioned.names, map(list, values), strict=False))
    if kind == "jsonl":
        untyped = {name for name in own if is_text(kinds[name]) and not lines.is_text(name)}
    else:
        untyped = set(own) if kind == "csv" else set()
    return Files(
        data, kind, source.partitioned, directories, source.because, origins, frozenset(untyped), is_mixed
    )


def of_text(path: str, schema: pa.Schema) -> pa.Schema:
    """Return the schema of a file of CSV, whose columns are text."""
    try:
        return pa.schema([(name, pa.string()) for name in schema.names])
    except UnicodeDecodeError:
        raise no_text(path) from None


def check_text(path: str, filesystem: fs.FileSystem) -> None:
    """Refuse a file of CSV that begins with bytes that are no text, which may be taken for an empty one."""
    with filesystem.open_input_stream(path) as stream:
        begin = stream.read(BEGIN)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(begin)
    except UnicodeDecodeError:
        raise no_text(path) from None


def no_text(path: str) -> ArgumentsError:
    """Return what is raised for a file of CSV that is not text in UTF-8."""
    return ArgumentsError(
        f"--input: the header of {path!r} is not text in UTF-8; what is packed has a name that says so, "
        "such as .csv.gz, and other text is converted first, as by iconv -f latin1 -t utf-8"
    )


def parsed_types(given: Sequence[str]) -> dict[str, pa.DataType]:
    """Return the types of ``--types``, by column."""
    types: dict[str, pa.DataType] = {}
    # Commas in the brackets of a type are its own.
    for each in (part for text in given for part in re.split(r",(?![^(\[]*[)\]])", text)):
        found = TYPE.fullmatch(each.strip())
        if found is None:
            raise ArgumentsError(
                f"--types: {each!r} is given; types are given by column, as in --types k=string,v=double"
            )
        types[unquoted("types", found["name"].strip())] = type_named(found["type"].strip())
    return types


def table_of(
    files: Files,
    reads: Reads,
    filters: Sequence[str] = (),
    types: Mapping[str, pa.DataType] | None = None,
    time_format: str | None = None,
) -> Table:
    """Return files as the table of a job: each column of text that it reads has a type."""
    data, types = files.data, types or {}
    there = data.schema.names
    for name in types:
        if name not in there:
            raise ArgumentsError(
                f"--types: there is no column {name!r}; columns are {', '.join(map(repr, there))}"
                f"{suggested(name, there)}"
            )
    read = [*reads.of(there), *(parse(each)[0] for each in filters)]
    # Where files have types, text is meant as text, but for that of the time column.
    typed = dict.fromkeys([*(name for name in read if name in files.untyped), reads.time, *types])
    columns = [name for name in typed if name in there and is_text(data.schema.field(name).type)]
    texts = {name: Text(types[name], is_given=True) for name in columns if name in types}
    inferred = {name: Inferred(is_key=name in reads.by) for name in columns if name not in types}
    form = None
    if time_format is not None:
        if reads.time not in columns:
            raise ArgumentsError(
                f"--time-format: {reads.time!r} is no column of text; only text has a format"
            )
        unit = types.get(reads.time, pa.timestamp("s", "UTC" if "%z" in time_format else None))
        form = texts[reads.time] = Text(unit, time_format)
        inferred.pop(reads.time, None)
    reasons = first_pass(files, inferred, reads.time, form)
    texts |= {name: Text(each.type) for name, each in inferred.items()}
    if reads.time in inferred and pa.types.is_null(texts[reads.time].type):
        # Without any time there are no windows, as on a day without rows.
        texts[reads.time] = Text(pa.timestamp("s"))
    if reads.time in inferred and reads.time not in files.untyped:
        # Of files whose columns have types, a time column is of moments in microseconds, as those are.
        texts[reads.time] = Text(moments(texts[reads.time].type))
    because = {name: each.because for name, each in inferred.items() if each.because is not None}
    directories = tuple(name for name in files.directories if name in read and name not in texts)
    of_directories = {name: files.because[name] for name in directories if name in files.because}
    because |= of_directories
    reasons |= {name: repr(value) for name, value in of_directories.items()}
    schema = pa.schema(
        [
            pa.field(
                each.name, texts[each.name].type if each.name in texts else types.get(each.name, each.type)
            )
            for each in data.schema
        ]
    )
    return Table(data, schema, texts, because, reasons, directories, files.origins)


def moments(kind: pa.DataType) -> pa.DataType:
    """Return the type of timestamps in microseconds for dates and coarser ones, and any other as it is."""
    if pa.types.is_date(kind):
        return pa.timestamp("us")
    if not pa.types.is_timestamp(kind) or kind.unit == "ns":
        return kind
    return pa.timestamp("us", kind.tz)


def first_pass(
    files: Files, inferred: Mapping[str, Inferred], time: str, form: Text | None
) -> dict[str, str]:
    """Show all values of columns of text to those who decide their types, and check the format of times.

    Returns why columns remain text, by name.
    """
    names = [*inferred, *([time] if form is not None else [])]
    reasons: dict[str, str] = {}
    for tagged in files.data.scanner(columns=names).scan_batches() if names else ():
        batch, path = tagged.record_batch, tagged.fragment.path
        for name, each in inferred.items():
            each.see(batch.column(name))
            if each.because is not None and name not in reasons:
                origin = files.origins.get(path, path)
                reasons[name] = f"{each.because!r} in {origin!r}{ZONES if each.is_of_zones else ''}"
        if form is not None and (other := misread(batch.column(time).drop_null(), form)) is not None:
            raise ArgumentsError(f"--time-format: {other!r} is no time of the format {form.time_format!r}")
    return reasons


def misread(values: pa.Array, form: Text) -> str | None:
    """Return a time that is not of a format, or is no day of the calendar, which strptime moves."""
    values = pc.unique(values).cast(pa.string())
    try:
        times = pc.strptime(values, format=form.time_format, unit="s")
    except pa.ArrowInvalid as error:
        return next((str(each) for each in values if f"'{each}'" in str(error)), str(error))
    if "%z" in str(form.time_format):
        # Of a time in a zone another text is the same.
        return None
    given, again = (
        pc.utf8_lower(pc.replace_substring_regex(each, PADDED, r"\1\2"))
        for each in (values, pc.strftime(times, format=form.time_format))
    )
    others = values.filter(pc.not_equal(given, again))
    return str(others[0]) if len(others) else None


def chosen_of(filters: Sequence[str], table: Table) -> tuple[ds.Expression | None, ds.Expression | None]:
    """Return comparisons, all of which must hold: of what files have as it is, and of text as it is read.

    Each is an expression, or None if there are no such comparisons.
    """
    schema = table.schema
    asked: dict[bool, list[ds.Expression]] = {True: [], False: []}
    for each in filters:
        name, operator, value = parse(each)
        if name not in schema.names:
            raise ArgumentsError(
                f"--filter: there is no column {name!r}; columns are {', '.join(map(repr, schema.names))}"
                f"{suggested(name, schema.names)}"
            )
        kind = compared_as(schema.field(name).type)
        is_read = schema.field(name).type != table.data.schema.field(name).type
        # Times without a zone are those of UTC, as those of windows are. Nulls match nothing.
        holds = ds.scalar(False) if pa.types.is_null(kind) else compared(name, operator, value, kind, "UTC")
        asked[is_read].append(holds)
    before, after = (reduce(and_, asked[each]) if asked[each] else None for each in (False, True))
    return before, after


def compared_as(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a column is compared with strings: for times perhaps a finer one."""
    if pa.types.is_dictionary(kind):
        return compared_as(kind.value_type)
    if pa.types.is_date64(kind) or (pa.types.is_timestamp(kind) and kind.tz is None):
        return pa.timestamp("us")
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return kind
