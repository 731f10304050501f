"""The sides of local_grid.py: one query, asked of windowkit, DuckDB and Polars, each as it answers fastest.

A side is bound to a table of ``key``, ``ts`` and ``v``. For a cell of the grid it gives the columns ``key``,
``start``, ``end``, ``sum`` and ``max``, one row per key and non-empty window, as an Arrow table or in
batches; windowkit's are called ``window_start`` and ``window_end``. Where a peer has several ways to ask,
the one taken was the fastest of those named beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import duckdb
import pyarrow as pa

import windowkit as wk

BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Cell:
    """One cell of the grid: a window, its lengths in seconds or rows, and a number of keys."""

    window: str
    """``"tumbling"``, ``"sliding"`` or ``"session"``, ``"tumbling rows"`` or ``"sliding rows"``."""
    size: int
    slide: int
    keys: int

    @property
    def name(self) -> str:
        """What tables and plots call the window."""
        if self.by_rows:
            every = f" by {self.slide}" if self.window == "sliding rows" else ""
            return f"{self.window.split()[0]} {self.size} rows{every}"
        every = f" by {spoken(self.slide)}" if self.window == "sliding" else ""
        return f"{self.window} {spoken(self.size)}{every}"

    @property
    def by_rows(self) -> bool:
        """Whether lengths are numbers of rows of a key."""
        return self.window.endswith("rows")

    @property
    def overlap(self) -> int:
        """How many windows a row is in."""
        return self.size // self.slide


class Side(Protocol):
    """An engine that holds the table and answers cells."""

    name: str

    def how(self, cell: Cell) -> str:
        """Describe which way of asking is taken."""
        ...

    def table(self, cell: Cell) -> pa.Table:
        """Return the whole answer."""
        ...

    def batches(self, cell: Cell) -> Iterator[pa.RecordBatch]:
        """Return the answer piece by piece, none of them kept."""
        ...


class Windowkit:
    """The side the others are compared with."""

    name = "windowkit"

    def __init__(self, table: pa.Table, threads: int) -> None:
        self.data = table
        self.threads = threads

    def how(self, cell: Cell) -> str:
        return "one query"

    def table(self, cell: Cell) -> pa.Table:
        return self._query(cell).run(self.data, threads=self.threads)

    def batches(self, cell: Cell) -> Iterator[pa.RecordBatch]:
        yield from self._query(cell).batches(self.data, threads=self.threads)

    @staticmethod
    def _query(cell: Cell) -> wk.Query:
        size, slide = f"{cell.size} seconds", f"{cell.slide} seconds"
        window = {
            "tumbling": lambda: wk.tumbling(size),
            "sliding": lambda: wk.sliding(size, slide),
            "session": lambda: wk.session(size),
            "tumbling rows": lambda: wk.tumbling(rows=cell.size),
            "sliding rows": lambda: wk.sliding(wk.rows(cell.size), wk.rows(cell.slide)),
        }[cell.window]()
        aggregates = [wk.sum("v").alias("sum"), wk.max("v").alias("max")]
        return wk.query(by="key", time="ts", windows=window, aggs=aggregates)


class DuckDB:
    """SQL over the Arrow table itself, which was faster here than a table of DuckDB's own."""

    name = "DuckDB"

    def __init__(self, table: pa.Table, threads: int) -> None:
        self.connection = duckdb.connect()
        self.connection.execute(f"SET threads = {threads}; SET preserve_insertion_order = false")
        self.connection.register("data", table)

    def how(self, cell: Cell) -> str:
        return self._way(cell)[0]

    def table(self, cell: Cell) -> pa.Table:
        return self.connection.sql(self._way(cell)[1]).to_arrow_table()

    def batches(self, cell: Cell) -> Iterator[pa.RecordBatch]:
        yield from self.connection.sql(self._way(cell)[1]).to_arrow_reader(BATCH_ROWS)

    @staticmethod
    def _way(cell: Cell) -> tuple[str, str]:
        """Return the name of the fastest way, and its SQL.

        For sliding windows also tried: a RANGE frame over the non-empty starts; unnest each pane into its
        windows, then GROUP BY; running totals within blocks and their lead (van Herk, Gil and Werman);
        list_sum over slices of lists.
        """
        if cell.window == "tumbling":
            return "GROUP BY", PANES.format(pane=micros(cell.size)) + TUMBLING.format(size=micros(cell.size))
        if cell.window == "session":
            # A pane as wide as the gap lies in one session; it pays where panes are fewer than rows.
            if cell.keys <= 4_096:
                return "lag over panes", SESSIONS_OF_PANES.format(gap=micros(cell.size))
            return "lag over rows", SESSIONS_OF_ROWS.format(gap=micros(cell.size))
        if cell.window == "tumbling rows":
            return "GROUP BY row_number", TUMBLING_ROWS.format(size=cell.size)
        if cell.window == "sliding rows":
            # Of one row each, panes are the rows themselves.
            if cell.slide == 1:
                return "ROWS frame", SLIDING_ROWS.format(size=cell.size, back=cell.size - 1)
            back = cell.overlap - 1
            return "ROWS frame over panes", ROW_PANES.format(size=cell.size, slide=cell.slide, back=back)
        dense = cell.keys <= 4_096
        name, sql = ("ROWS frame over all panes", DENSE) if dense else ("RANGE frame over changes", CHANGES)
        size, slide = micros(cell.size), micros(cell.slide)
        return name, PANES.format(pane=slide) + sql.format(size=size, slide=slide, back=cell.overlap - 1)


PANES = """
WITH pane AS (
    SELECT key, epoch_us(ts) // {pane} AS p, sum(v) AS s, max(v) AS m FROM data GROUP BY ALL
)"""

TUMBLING = """
SELECT key, make_timestamp(p * {size}) AS "start", make_timestamp(p * {size} + {size}) AS "end",
    s AS sum, m AS max
FROM pane"""

# Every pane between a key's first and last window gets a row, so that a frame is a number of rows.
DENSE = """,
start AS (SELECT key, unnest(range(min(p) - {back}, max(p) + 1)) AS p FROM pane GROUP BY key),
dense AS (SELECT key, p, s, m FROM start LEFT JOIN pane USING (key, p)),
framed AS (
    SELECT key, p, sum(s) OVER frame AS s, max(m) OVER frame AS m FROM dense
    WINDOW frame AS (PARTITION BY key ORDER BY p ROWS BETWEEN CURRENT ROW AND {back} FOLLOWING)
)
SELECT key, make_timestamp(p * {slide}) AS "start", make_timestamp(p * {slide} + {size}) AS "end",
    s AS sum, m AS max
FROM framed WHERE m IS NOT NULL"""

# Where keys are sparse, most windows equal the one before: those that differ are computed, others copied.
CHANGES = """,
change AS (
    SELECT key, p, s, m FROM pane
    UNION ALL SELECT key, p - {back}, NULL, NULL FROM pane
    UNION ALL SELECT key, p + 1, NULL, NULL FROM pane
),
framed AS (
    SELECT key, p, lead(p) OVER (PARTITION BY key ORDER BY p) AS next,
        sum(s) OVER frame AS s, max(m) OVER frame AS m
    FROM change
    WINDOW frame AS (PARTITION BY key ORDER BY p RANGE BETWEEN CURRENT ROW AND {back} FOLLOWING)
),
every AS (SELECT key, unnest(range(p, next)) AS p, s, m FROM framed WHERE next > p AND m IS NOT NULL)
SELECT key, make_timestamp(p * {slide}) AS "start", make_timestamp(p * {slide} + {size}) AS "end",
    s AS sum, m AS max
FROM every"""

SESSIONS = """,
begun AS (
    SELECT key, f, l, s, m,
        CASE WHEN f - lag(l) OVER (PARTITION BY key ORDER BY f) <= {gap} THEN 0 ELSE 1 END AS begins
    FROM piece
),
numbered AS (
    SELECT key, f, l, s, m,
        sum(begins) OVER (PARTITION BY key ORDER BY f ROWS UNBOUNDED PRECEDING) AS number
    FROM begun
)
SELECT key, make_timestamp(min(f)) AS "start", make_timestamp(max(l) + {gap}) AS "end",
    sum(s) AS sum, max(m) AS max
FROM numbered GROUP BY key, number"""

SESSIONS_OF_ROWS = (
    "WITH piece AS (SELECT key, epoch_us(ts) AS f, epoch_us(ts) AS l, v AS s, v AS m FROM data)" + SESSIONS
)

SESSIONS_OF_PANES = (
    """
WITH piece AS (
    SELECT key, min(epoch_us(ts)) AS f, max(epoch_us(ts)) AS l, sum(v) AS s, max(v) AS m
    FROM data GROUP BY key, epoch_us(ts) // {gap}
)"""
    + SESSIONS
)

TUMBLING_ROWS = """
WITH ranked AS (
    SELECT key, ts, v, (row_number() OVER (PARTITION BY key ORDER BY ts) - 1) // {size} AS w FROM data
)
SELECT key, min(ts) AS "start", max(ts) AS "end", sum(v) AS sum, max(v) AS max
FROM ranked GROUP BY key, w HAVING count(*) = {size}"""

SLIDING_ROWS = """
WITH framed AS (
    SELECT key, ts AS "start", lead(ts, {back}) OVER keys AS "end",
        sum(v) OVER frame AS sum, max(v) OVER frame AS max
    FROM data
    WINDOW keys AS (PARTITION BY key ORDER BY ts),
        frame AS (PARTITION BY key ORDER BY ts ROWS BETWEEN CURRENT ROW AND {back} FOLLOWING)
)
SELECT * FROM framed WHERE "end" IS NOT NULL"""

ROW_PANES = """
WITH ranked AS (
    SELECT key, ts, v, (row_number() OVER (PARTITION BY key ORDER BY ts) - 1) // {slide} AS p FROM data
),
pane AS (
    SELECT key, p, min(ts) AS f, max(ts) AS l, count(*) AS n, sum(v) AS s, max(v) AS m
    FROM ranked GROUP BY key, p
),
framed AS (
    SELECT key, f AS "start", max(l) OVER frame AS "end", sum(n) OVER frame AS n,
        sum(s) OVER frame AS sum, max(m) OVER frame AS max
    FROM pane
    WINDOW frame AS (PARTITION BY key ORDER BY p ROWS BETWEEN CURRENT ROW AND {back} FOLLOWING)
)
SELECT key, "start", "end", sum, max FROM framed WHERE n = {size}"""


class Polars:
    """Lazy queries on the streaming engine, which was faster here than the one in memory."""

    name = "Polars"

    def __init__(self, table: pa.Table, threads: int) -> None:
        # Polars reads it when it is imported, and never again.
        os.environ["POLARS_MAX_THREADS"] = str(threads)
        import polars

        if polars.thread_pool_size() != threads:
            raise RuntimeError(
                f"threads: Polars was imported with {polars.thread_pool_size()}, not {threads}"
            )
        self.pl = polars
        self.data = polars.from_arrow(table).with_columns(polars.col("ts").set_sorted()).lazy()

    def how(self, cell: Cell) -> str:
        if cell.window == "tumbling":
            return "group_by"
        if cell.window == "sliding":
            return "group_by_dynamic over panes"
        if cell.window == "tumbling rows":
            return "group_by of ranks over key"
        if cell.window == "sliding rows":
            return "rolling over key" if cell.slide == 1 else "rolling over panes over key"
        return self._session(cell)[0]

    def table(self, cell: Cell) -> pa.Table:
        return self._lazy(cell).collect(engine="streaming").to_arrow()

    def batches(self, cell: Cell) -> Iterator[pa.RecordBatch]:
        for frame in self._lazy(cell).collect_batches(maintain_order=False, lazy=True, engine="streaming"):
            yield from frame.to_arrow().to_batches()

    def _lazy(self, cell: Cell):
        if cell.window == "tumbling":
            return self._with_end(self._panes(cell.size), cell.size)
        if cell.window == "sliding":
            return self._sliding(cell)
        if cell.by_rows:
            return self._by_rows(cell)
        return self._session(cell)[1]

    def _panes(self, width: int):
        col = self.pl.col
        pane = col("ts").dt.truncate(f"{width}s").alias("start")
        return self.data.group_by("key", pane).agg(sum=col("v").sum(), max=col("v").max())

    def _with_end(self, frame, size: int):
        return frame.with_columns(end=self.pl.col("start").dt.offset_by(f"{size}s"))

    def _sliding(self, cell: Cell):
        return self._dynamic(self._panes(cell.slide).sort("key", "start"), cell)

    def _dynamic(self, frame, cell: Cell):
        """Aggregate the columns sum and max of rows or panes."""
        windows = frame.group_by_dynamic(
            "start",
            every=f"{cell.slide}s",
            period=f"{cell.size}s",
            # Without it the first window is the one that starts with the first row, or just before it.
            offset=f"-{cell.size - cell.slide}s",
            group_by="key",
        )
        col = self.pl.col
        return self._with_end(windows.agg(col("sum").sum(), col("max").max()), cell.size)

    def _by_rows(self, cell: Cell):
        """Aggregate panes of `slide` rows, and as many neighbouring ones as a window has."""
        pl, col = self.pl, self.pl.col
        if cell.slide == 1:
            panes = self.data.select("key", f="ts", l="ts", s="v", m="v")
        else:
            ranked = self.data.with_columns(pane=pl.int_range(pl.len()).over("key") // cell.slide)
            panes = (
                ranked.group_by("key", "pane")
                .agg(f=col("ts").min(), l=col("ts").max(), n=pl.len(), s=col("v").sum(), m=col("v").max())
                .filter(col("n") == cell.slide)
            )
        if cell.window == "tumbling rows":
            return panes.select("key", start="f", end="l", sum="s", max="m")
        if cell.slide > 1:
            panes = panes.sort("key", "pane")
        windows = panes.select(
            "key",
            start=col("f").shift(cell.overlap - 1).over("key"),
            end=col("l"),
            sum=col("s").rolling_sum(cell.overlap).over("key"),
            max=col("m").rolling_max(cell.overlap).over("key"),
        )
        return windows.filter(col("start").is_not_null())

    def _session(self, cell: Cell):
        pl, col, gap = self.pl, self.pl.col, timedelta(seconds=cell.size)
        if 16 < cell.keys <= 4_096:
            # Pauses by key, rows left where they are.
            numbered = self.data.with_columns(
                number=(col("ts").diff().over("key") > pl.lit(gap)).fill_null(True).cum_sum().over("key")
            )
            sessions = numbered.group_by("key", "number").agg(
                start=col("ts").min(), end=col("ts").max(), sum=col("v").sum(), max=col("v").max()
            )
            return "pauses over key", self._ended(sessions, cell)
        if cell.keys <= 16:
            name = "sorted panes"
            pieces = (
                self.data.group_by("key", pane=col("ts").dt.truncate(f"{cell.size}s"))
                .agg(f=col("ts").min(), l=col("ts").max(), s=col("v").sum(), m=col("v").max())
                .sort("key", "f")
            )
        else:
            name = "sorted rows"
            pieces = self.data.sort("key", "ts").select("key", f="ts", l="ts", s="v", m="v")
        begins = (col("f") - col("l").shift() > pl.lit(gap)) | (col("key").diff() != 0)
        sessions = (
            pieces.with_columns(number=begins.fill_null(True).cum_sum())
            .group_by("number")
            .agg(
                col("key").first(),
                start=col("f").min(),
                end=col("l").max(),
                sum=col("s").sum(),
                max=col("m").max(),
            )
        )
        return name, self._ended(sessions, cell)

    def _ended(self, sessions, cell: Cell):
        """Move the end of sessions from their last row to the gap behind it."""
        return sessions.drop("number").with_columns(self.pl.col("end").dt.offset_by(f"{cell.size}s"))


class PolarsRows(Polars):
    """`group_by_dynamic` over the rows themselves: what one writes first, and several times as slow."""

    name = "Polars-rows"

    def how(self, cell: Cell) -> str:
        return super().how(cell) if cell.window == "session" or cell.by_rows else "group_by_dynamic over rows"

    def _lazy(self, cell: Cell):
        if cell.window == "session" or cell.by_rows:
            return super()._lazy(cell)
        return self._dynamic(self.data.select("key", start="ts", sum="v", max="v"), cell)


SIDES = {side.name.lower(): side for side in (Windowkit, DuckDB, Polars, PolarsRows)}


def micros(seconds: int) -> int:
    """Return seconds in the unit of the time column."""
    return seconds * 1_000_000


def spoken(seconds: int) -> str:
    """Return a length as people say it."""
    return f"{seconds // 60} min" if seconds % 60 == 0 else f"{seconds} s"
