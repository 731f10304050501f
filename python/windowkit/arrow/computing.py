"""Columns that expressions of Polars and pyarrow compute, in this process, before a query looks at them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib.metadata import version
from typing import Any, Final, TypeVar

import pyarrow as pa

from windowkit.arrow.alignment import BYTES, STRINGS
from windowkit.arrow.validation import refusing
from windowkit.errors import InvalidType, InvalidValue, UnknownColumn, WindowKitError
from windowkit.language.checks import article, suggested
from windowkit.language.expressions import Expression

__all__ = ["Computing", "computing", "pyarrow_values", "without_views"]

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

VIEWS: Final = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
INSTEAD: Final = "use an expression of Polars or pyarrow, or compute the column first"


class Computing:
    """Adds the columns of some expressions to rows, or puts them in place of those of the same names.

    Parameters
    ----------
    argument : str
        What errors call the data.
    expressions : sequence of Expression

    Raises
    ------
    InvalidType
        One of them is evaluated by Spark.
    """

    def __init__(self, argument: str, expressions: Sequence[Expression]) -> None:
        self._argument, self._expressions = argument, tuple(expressions)
        for each in expressions:
            if each.library in ("spark", "sql"):
                raise InvalidType(
                    f"{argument}: column {str(each)!r} is {article(each.kind)}, which Spark evaluates, for "
                    f"Spark DataFrames only; {INSTEAD}"
                )

    @property
    def names(self) -> list[str]:
        """What the columns are called."""
        return list(map(str, self._expressions))

    @cached_property
    def is_by_row(self) -> bool:
        """Whether a row's values depend on that row alone, so that batches can be computed by themselves."""
        return all(each.library == "pyarrow" or is_by_row(each.given) for each in self._expressions)

    def check_rows(self) -> None:
        """Refuse expressions that may look at other rows, of which a batch of a stream has only some."""
        for each in self._expressions:
            if each.library == "polars" and not is_by_row(each.given):
                raise InvalidValue(
                    f"{self._argument}: the {each.kind} {str(each)!r} looks at other rows than its own, or "
                    f"Polars {version(each.library)} cannot rule that out; the rows of a stream come batch "
                    "by batch, so its expressions must depend on one row alone"
                )

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse expressions that are called as a column of a stream, whose rows may be asked for again."""
        for each in self._expressions:
            if str(each) in names:
                raise InvalidValue(
                    f"{self._argument}: it has a column {str(each)!r}, which is the name of the {each.kind}, "
                    "too; give that another, by its .alias(...) or by windowkit.expr(..., name=...)"
                )

    def added_to(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of a stream with these columns."""
        self.check_names(schema.names)
        return self.schema(schema)

    def removed_from(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of a stream without these columns."""
        return pa.schema([field for field in schema if field.name not in self.names], schema.metadata)

    def reads(self, columns: Iterable[str]) -> list[str] | None:
        """Return which columns are needed for `columns`; None if that is not known."""
        needed = [each for each in columns if not isinstance(each, Expression)]
        for each in self._expressions:
            if each.library == "pyarrow":
                return None
            needed += each.given.meta.root_names()
        return list(dict.fromkeys(needed))

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of rows with these columns, of rows without.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            An expression reads a column that is not there, or cannot be evaluated.
        """
        with refusing(self._argument, "its expressions cannot be evaluated"):
            made: pa.Schema = self._computed(pa.Table.from_batches([], schema)).schema
        return made

    def __call__(self, rows: Rows, schema: pa.Schema) -> Rows:
        """Return rows with these columns, which have the types of `schema`.

        Raises
        ------
        InvalidType, InvalidValue
            An expression cannot be evaluated, makes no value of each row, or one of another type.
        """
        with refusing(self._argument, "its expressions cannot be evaluated"):
            made = self._computed(rows)
        for name in self.names:
            kind, expected = made.schema.field(name).type, schema.field(name).type
            if kind != expected:
                raise InvalidType(
                    f"{self._argument}: column {name!r} is computed as {kind}, but as {expected} where there "
                    "are no rows; cast the expression to a type"
                )
        return made

    def _computed(self, rows: Rows) -> Rows:
        made = rows
        for each in self._expressions:
            values = (polars_values if each.library == "polars" else pyarrow_values)(
                self._argument, each, rows
            )
            values = like_others(values, rows.schema)
            column = values if isinstance(rows, pa.Table) else whole(values)
            at = made.schema.get_all_field_indices(str(each))
            if len(at) > 1:
                raise InvalidValue(
                    f"{self._argument}: it has {len(at)} columns {str(each)!r}, in place of which an "
                    "expression is computed; rename them, or the expression"
                )
            made = made.set_column(at[0], str(each), column) if at else made.append_column(str(each), column)
        return made


def computing(argument: str, expressions: Sequence[Expression]) -> Computing | None:
    """Return what computes expressions; None if there are none."""
    return Computing(argument, expressions) if expressions else None


def whole(values: pa.ChunkedArray) -> pa.Array:
    """Return values as one array."""
    return pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)


def without_views(table: pa.Table) -> pa.Table:
    """Return a table without views of strings, as columns of Polars come, which few functions take."""
    for at, kind in enumerate(table.schema.types):
        plain = without_view(kind)
        if plain != kind:
            table = table.set_column(at, table.field(at).name, table.column(at).cast(plain))
    return table


def without_view(kind: pa.DataType) -> pa.DataType:
    """Return a type without views, also as the values of dictionaries and the fields of structs."""
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, without_view(kind.value_type), kind.ordered)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(without_view(field.type)) for field in kind])
    return VIEWS.get(kind, kind)


def like_others(values: pa.ChunkedArray, schema: pa.Schema) -> pa.ChunkedArray:
    """Return strings and binary in the layout that all of the data have, if they have one."""
    for layouts in (STRINGS, BYTES):
        own = {kind for kind in schema.types if kind in layouts}
        if values.type in layouts and len(own) == 1:
            return values.cast(own.pop())
    return values


def pyarrow_values(argument: str, expression: Expression, rows: Rows) -> pa.ChunkedArray:
    """Return the values of an expression of pyarrow."""
    from pyarrow import acero

    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    project = acero.Declaration("project", acero.ProjectNodeOptions([expression.given], ["x"]))
    try:
        source = acero.TableSourceNodeOptions(without_views(table))
        steps = [acero.Declaration("table_source", source), project]
        # By one thread, which keeps the order of rows.
        return acero.Declaration.from_sequence(steps).to_table(use_threads=False)["x"]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowKeyError) as error:
        message = str(error).splitlines()[0]
        missing = re.match(r"No match for FieldRef\.Name\((.*?)\) in ", message)
        if missing is not None:
            raise unknown(argument, expression, missing[1], rows.schema.names) from None
        of_type = isinstance(error, pa.ArrowNotImplementedError | pa.ArrowTypeError)
        raise failed(argument, expression, message, InvalidType if of_type else InvalidValue) from None


def polars_values(argument: str, expression: Expression, rows: Rows) -> pa.ChunkedArray:
    """Return the values of an expression of Polars."""
    import polars as pl

    names = list(dict.fromkeys(expression.given.meta.root_names()))
    for name in names:
        if name not in rows.schema.names:
            raise unknown(argument, expression, name, rows.schema.names)
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    # Without a column there would be no rows to count.
    frame = (
        pl.from_arrow(table.select(names), rechunk=False)
        if names
        else pl.int_range(table.num_rows, eager=True).to_frame()
    )
    assert isinstance(frame, pl.DataFrame)
    given = expression.given.alias("x")
    try:
        if given.meta.is_literal(allow_aliasing=True):
            made, changes = frame.with_columns(given).select("x"), False
        else:
            made = frame.select(given)
            # One row may be left of one row, so that it is also tried with none.
            changes = made.height != frame.height or frame.clear().select(given).height != 0
    except pl.exceptions.PolarsError as error:
        raise failed(argument, expression, error) from None
    if changes:
        raise InvalidValue(
            f"{argument}: the {expression.kind} {str(expression)!r} does not make one value for each row; "
            "rows are aggregated by windowkit's functions, as in windowkit.sum(pl.col('v') * 2), and left "
            "out by .where(...) of these"
        )
    if made.schema["x"].is_object():
        raise failed(
            argument, expression, "it makes objects of Python, which Arrow does not hold", InvalidType
        )
    return pa.RecordBatchReader.from_stream(made).read_all()["x"]


def unknown(argument: str, expression: Expression, name: str, there: list[str]) -> UnknownColumn:
    """Return what is raised where an expression reads a column that is not there."""
    return UnknownColumn(
        f"{argument}: the {expression.kind} {str(expression)!r} reads column {name!r}; there are "
        f"{', '.join(there)}{suggested(name, there)}"
    )


def failed(
    argument: str, expression: Expression, why: object, kind: type[WindowKitError] = InvalidValue
) -> WindowKitError:
    """Return what is raised where a library does not evaluate its expression."""
    return kind(f"{argument}: the {expression.kind} {str(expression)!r} cannot be evaluated: {why}")


def is_by_row(expression: Any) -> bool:
    """Return whether a Polars expression looks at each row by itself, as far as this Polars can tell."""
    import polars as pl

    meta = expression.meta
    if not hasattr(meta, "is_row_separable"):
        return False
    try:
        by_row = meta.is_literal() or (meta.is_row_separable() and meta.is_length_preserving())
    except pl.exceptions.PolarsError:
        # A function of Python, for instance.
        return False
    # What it says of an expression is not said of those within.
    return by_row and all(map(is_by_row, meta.pop()))
