"""What a query means, evaluated naively from the definitions, in plain Python and exact arithmetic.

Windows are Li's ``extent()`` (2008, §5.1): for each window the rows it contains, found by looking at all of
them. Nothing here knows slices, panes or partial aggregates, and nothing is shared with the package but the
query itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

import windowkit as wk
from support import local_oracle
from support.extents import ranks_of, spans_of
from support.oracle_aggregates import aggregate, same
from support.oracle_types import decoded, output_type, span_type
from support.plain import in_units, key, plain
from windowkit.language.windows import units

Row = tuple[Any, ...]
"""Keys, window name if there are several windows, start, end, and ranks where a window of the query has them.
Of windows between marks several may have one name: all but the first have a number, too."""
Ranks = tuple[int, int] | None


def evaluate(query: wk.Query, table: pa.Table) -> dict[Row, list[Any]]:
    """Return ``{(*keys, [window name,] start, end): aggregates}``.

    Raises OverflowError if an aggregate does not fit its type. Times are such that windows fit theirs.
    """
    time_type = table.schema.field(query.time).type
    times = plain(table[query.time])
    keys = [[key(value) for value in plain(table[name])] for name in query.by]
    groups: dict[Row, list[int]] = defaultdict(list)
    for row, time in enumerate(times):
        if time is not None:
            groups[tuple(column[row] for column in keys)].append(row)

    read = table.column_names if query.reads_all else query.inputs
    columns = {name: plain(table[name]) for name in read}
    result: dict[Row, list[Any]] = {}
    for window in query.windows:
        name = (window.name,) if len(query.windows) > 1 else ()
        for group, rows in groups.items():
            for start, end, inside, ranks in extents(window, rows, times, time_type, columns):
                ranked = (ranks,) if query.has_ranks else ()
                at = numbered((*group, *name, start, end, *ranked), result, window)
                result[at] = [
                    aggregate(each, taken(each, inside, columns), times, columns, table.schema)
                    for each in query.aggs
                ]
    return result


def numbered(at: Row, known: dict[Row, list[Any]], window: wk.Window) -> Row:
    """Return `at`, with a number if another window has it already."""
    if at not in known:
        return at
    assert isinstance(window, wk.Punctuation | wk.Between), f"window {at} twice"
    return next(each for number in range(len(known)) if (each := (*at, number)) not in known)


def taken(each: wk.Aggregate, rows: Sequence[int], columns: dict[str, list[Any]]) -> Sequence[int]:
    """Return the rows that the filter of an aggregate takes."""
    return rows if each.condition is None else [row for row in rows if columns[each.condition][row]]


def extents(
    window: wk.Window,
    rows: Sequence[int],
    times: Sequence[int],
    time_type: pa.DataType,
    columns: dict[str, list[Any]],
) -> Iterable[tuple[int, int, list[int], Ranks]]:
    """Yield start, end, rows and ranks (if it is measured by rows) of each window that has rows."""
    ranked = sorted(rows, key=lambda row: (times[row], row))
    if isinstance(window, wk.Global):
        yield times[ranked[0]], times[ranked[-1]], ranked, None
    elif isinstance(window, wk.Band):
        start, end = in_units(window.start, time_type), in_units(window.end, time_type)
        inside = [row for row in rows if start <= times[row] < end]
        if inside:
            yield start, end, inside, None
    elif window.is_local:
        for start, end in local_oracle.extents(window, {times[row] for row in rows}, time_type):
            yield start, end, [row for row in rows if start <= times[row] < end], None
    elif isinstance(window, wk.Landmark) and not window.counts_rows:
        yield from landmarks(window, rows, times, time_type)
    elif isinstance(window, wk.Punctuation):
        for run in runs(ranked, columns[window.column], window.at):
            yield times[run[0]], times[run[-1]], run, None
    elif isinstance(window, wk.Between) or by_row_sessions(window):
        ranked = [row for row in ranked if has_gap(window, row, columns)]
        for lo, hi, (start, end), _ in consecutive(window, ranked, times, time_type, columns):
            yield start, end, ranked[lo:hi], None
    elif isinstance(window, wk.Custom):
        yield from calendar(window.implementation, rows, times)
    elif counts_arrivals(window):
        yield from arrivals(window, rows, times, time_type)
    elif window.counts_rows:
        for lo, hi, extent in by_rows(window, [times[row] for row in ranked], time_type):
            start, end = extent or (times[ranked[lo]], times[ranked[hi - 1]])
            yield start, end, ranked[lo:hi], (lo, hi)
    else:
        for start, end, inside in by_time(window, rows, times, time_type):
            yield start, end, inside, None


def landmarks(
    window: wk.Landmark, rows: Sequence[int], times: Sequence[int], time_type: pa.DataType
) -> Iterable[tuple[int, int, list[int], None]]:
    """Yield the windows ``[s, s + j * every)`` with a row in the last `every` of them."""
    every = in_units(window.every, time_type)
    seen = set()
    for row in rows:
        if window.period is None:
            start = in_units(window.start, time_type)
        else:
            offset, period = in_units(window.start_time or 0, time_type), in_units(window.period, time_type)
            start = times[row] - (times[row] - offset) % period
        if times[row] < start:
            continue
        end = start + ((times[row] - start) // every + 1) * every
        if (start, end) not in seen:
            seen.add((start, end))
            yield start, end, [other for other in rows if start <= times[other] < end], None


def calendar(
    definition: Any, rows: Sequence[int], times: Sequence[int]
) -> Iterable[tuple[int, int, list[int], None]]:
    """Yield the windows of a user's calendar over integers."""
    assert isinstance(definition, wk.ContextFree), "the oracle has no windows of users that rows tell"
    at = [times[row] for row in rows]
    for start, end in definition.windows(min(at), max(at) + definition.longest):
        inside = [row for row in rows if start <= times[row] < end]
        if inside:
            yield start, end, inside, None


def runs(ranked: Sequence[int], marks: Sequence[bool | None], at: str) -> Iterable[list[int]]:
    """Yield the runs of rows that marked ones end, or begin."""
    run: list[int] = []
    for row in ranked:
        if at == "start" and marks[row] and run:
            yield run
            run = []
        run.append(row)
        if at == "end" and marks[row]:
            yield run
            run = []
    if run:
        yield run


def by_row_sessions(window: wk.Window) -> bool:
    """Whether sessions are such that rows tell where they end."""
    return isinstance(window, wk.Session) and not window.merges


def has_gap(window: wk.Window, row: int, columns: dict[str, list[Any]]) -> bool:
    """Whether a row is in a session at all."""
    name = window.column if isinstance(window, wk.Session) else None
    return name is None or (columns[name][row] is not None and columns[name][row] > 0)


def consecutive(
    window: wk.Between | wk.Session,
    ranked: Sequence[int],
    times: Sequence[int],
    time_type: pa.DataType,
    columns: dict[str, list[Any]],
) -> Iterable[tuple[int, int, tuple[int, int], int | None]]:
    """Yield ranks, start and end of windows that follow each other, and what watermark makes each final."""
    rank = 0
    while rank < len(ranked):
        first, hi = times[ranked[rank]], rank
        if isinstance(window, wk.Between):
            if not columns[window.enter][ranked[rank]]:
                rank += 1
                continue
            after = range(rank + window.exclusive, len(ranked))
            left = next((at for at in after if columns[window.leave][ranked[at]]), None)
            hi = len(ranked) if left is None else left + (not window.exclusive)
            yield rank, hi, (first, times[ranked[hi - 1]]), None if left is None else times[ranked[left]]
        else:
            most = None if window.at_most is None else in_units(window.at_most, time_type)
            end = first
            while hi < len(ranked) and times[ranked[hi]] <= end:
                if most is not None and times[ranked[hi]] >= first + most:
                    break
                end = max(end, times[ranked[hi]] + gap_of(window, ranked[hi], time_type, columns))
                hi += 1
            if most is not None and end >= first + most:
                yield rank, hi, (first, first + most), first + most
            else:
                yield rank, hi, (first, end), end + 1
        rank = hi


def gap_of(window: wk.Session, row: int, time_type: pa.DataType, columns: dict[str, list[Any]]) -> int:
    """Return the gap of a row; a column has it in units of the time, or in seconds where that is dates."""
    if window.column is None:
        return in_units(window.gap, time_type)
    gap = columns[window.column][row]
    return int(gap // 86_400 if pa.types.is_date(time_type) else gap)


def by_rows(
    window: wk.Window, times: Sequence[int], time_type: pa.DataType
) -> Iterable[tuple[int, int, tuple[int, int] | None]]:
    """Yield ranks of windows over ascending times, and what they are called if not by their rows."""
    if isinstance(window, wk.Landmark):
        yield from ((lo, hi, None) for _, (lo, hi), _ in counted(window, len(times)))
        return
    assert isinstance(window, wk.Sliding | wk.Tumbling), f"the oracle has no {window.kind} by rows"
    size = window.size
    slide = size if isinstance(window, wk.Tumbling) else window.slide
    if isinstance(size, wk.Rows) and isinstance(slide, wk.Rows):
        yield from ((lo, hi, None) for _, (lo, hi), _ in counted(window, len(times)))
    elif isinstance(size, wk.Rows):
        every, offset = in_units(slide, time_type), in_units(window.start_time or 0, time_type)
        for edge in sorted({time - (time - offset) % every + every for time in times}):
            before = [rank for rank, time in enumerate(times) if time < edge]
            yield before[-size.count :][0], before[-1] + 1, None
    else:
        length = in_units(size, time_type)
        for last in range(slide.count - 1, len(times), slide.count):
            inside = [rank for rank in range(last + 1) if times[last] - length < times[rank]]
            yield inside[0], last + 1, (times[last] - length, times[last])


Counted = wk.Sliding | wk.Tumbling | wk.Landmark


def counted(window: Counted, rows: int) -> Iterator[tuple[int, tuple[int, int], bool]]:
    """Yield number and ranks of each window by rows, once for the same rows, and whether it has ended."""
    if isinstance(window, wk.Landmark):
        every = units(window.every)
        extents = [(0, end) for end in range(every, rows + every, every)]
    else:
        size = units(window.size)
        slide = units(window.slide) if isinstance(window, wk.Sliding) else size
        first = slide - size if window.partial in ("start", "both") else 0
        extents = [(start, start + size) for start in range(first, rows, slide)]
    seen = set()
    for number, (start, end) in enumerate(extents):
        ranks, has_ended = (max(start, 0), min(end, rows)), end <= rows
        if ranks not in seen and (has_ended or window.partial in ("end", "both")):
            seen.add(ranks)
            yield number, ranks, has_ended


def counts_arrivals(window: wk.Window) -> bool:
    return isinstance(window, wk.Sliding) and window.order == "arrival"


def arrivals(
    window: wk.Window, rows: Sequence[int], times: Sequence[int], time_type: pa.DataType
) -> Iterable[tuple[int, int, list[int], Ranks]]:
    """Yield the windows that every n-th row ends, by their numbers (Li 2008, Eq. 5.13-5.14).

    Rows have the numbers in which they arrived. Li assumes unique times: of rows with the time of the one
    that ends a window, those that arrive after it are not in it.
    """
    assert isinstance(window, wk.Sliding), f"{window} counts no arrivals"
    length, ranked = in_units(window.size, time_type), sorted(rows, key=lambda row: (times[row], row))
    for last in sorted(rows)[window.slide.count - 1 :: window.slide.count]:
        start, end = times[last] - length, times[last]
        inside = [row for row in ranked if start < times[row] and (times[row], row) <= (end, last)]
        lo = ranked.index(inside[0])
        yield start, end, inside, (lo, lo + len(inside))


def by_time(
    window: wk.Window, rows: Sequence[int], times: Sequence[int], time_type: pa.DataType
) -> Iterable[tuple[int, int, list[int]]]:
    """Yield start, end and rows of each session, sliding or tumbling window that has rows."""
    assert isinstance(window, wk.Session | wk.Sliding | wk.Tumbling), f"the oracle has no {window.kind}"
    if isinstance(window, wk.Session):
        gap = in_units(window.gap, time_type)
        session: list[int] = []
        for row in sorted(rows, key=lambda row: times[row]):
            if session and times[row] - times[session[-1]] > gap:
                yield times[session[0]], times[session[-1]] + gap, session
                session = []
            session.append(row)
        if session:
            yield times[session[0]], times[session[-1]] + gap, session
        return
    size = in_units(window.size, time_type)
    slide = size if isinstance(window, wk.Tumbling) else in_units(window.slide, time_type)
    offset = in_units(window.start_time or 0, time_type)
    # Window k is [offset + k * slide, offset + k * slide + size); these are all k that have a row.
    numbers = {
        k
        for row in rows
        for k in range((times[row] - size - offset) // slide + 1, (times[row] - offset) // slide + 1)
    }
    for k in numbers:
        start = offset + k * slide
        yield start, start + size, [row for row in rows if start <= times[row] < start + size]


def rows_of(query: wk.Query, result: pa.Table) -> dict[Row, list[Any]]:
    """Return a result as `evaluate` does, having checked that each window is there once."""
    keys = [[key(value) for value in plain(result[name])] for name in query.by]
    names = [plain(result["window_name"])] if len(query.windows) > 1 else []
    edges = spans_of(result)
    ranked = [ranks_of(result)] if query.has_ranks else []
    aggregates = [plain(result[each.name]) for each in query.aggs]
    windows = {window.name: window for window in query.windows}
    rows: dict[Row, list[Any]] = {}
    for row in range(result.num_rows):
        start, end = edges[row] or (None, None)
        at = (*(column[row] for column in [*keys, *names]), start, end, *(column[row] for column in ranked))
        window = windows[names[0][row]] if names else query.windows[0]
        rows[numbered(at, rows, window)] = [column[row] for column in aggregates]
    return rows


def assert_equal(expected: dict[Row, list[Any]], got: dict[Row, list[Any]]) -> None:
    assert got.keys() - expected.keys() == set(), "windows that are not"
    assert expected.keys() - got.keys() == set(), "windows that are missing"
    for at, values in expected.items():
        for wanted, value in zip(values, got[at], strict=True):
            assert same(wanted, value), f"window {at}: wanted {values}, got {got[at]}"


def assert_types(query: wk.Query, schema: pa.Schema, result: pa.Schema) -> None:
    """Check names and types of the columns of a result of data of type `schema`."""
    wanted = [(name, schema.field(name).type) for name in query.by]
    if len(query.windows) > 1:
        wanted.append(("window_name", pa.string()))
    extents = [(query.window_column, span_type(schema.field(query.time).type))]
    if query.has_ranks:
        extents.append(("window_rows", span_type(pa.int64())))
    if query.window_columns == "flat":
        prefixes = ("window", "window_rows")
        extents = [
            (f"{prefix}_{edge.name}", edge.type)
            for prefix, (_, span) in zip(prefixes, extents, strict=False)
            for edge in span
        ]
    wanted += extents
    for each in query.aggs:
        kind = None if each.column is None else schema.field(each.column).type
        if each.function == "collect_rows":
            kind = pa.struct([schema.field(name) for name in each.columns or schema.names])
        wanted.append((each.name, output_type(each.function, kind, schema.field(query.time).type)))
    # Whether values of a dictionary stay encoded is the core's choice.
    got = [(field.name, decoded(field.type)) for field in result]
    assert got == [(name, decoded(kind)) for name, kind in wanted]
