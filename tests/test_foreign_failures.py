"""Objects that fail as they hand over Arrow data, at every door: what is raised, and that nothing changes."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import windowkit as wk
from support.malformed import ForeignStream
from windowkit import kernels
from windowkit.partition import Partitioner, candidates, choose, cost, plan

TABLE = pa.table({"k": ["a", "b"], "t": [1, 2], "v": [1.0, 2.0]})
BATCH = TABLE.to_batches()[0]
SCHEMA = TABLE.schema
OTHER = pa.schema({"t": pa.int32(), "v": pa.float64(), "k": pa.large_string()})
"""A stream's, to which rows are cast."""
COLUMN = pa.array([1, 2])

QUERY = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
CLOCKED = wk.query(by="k", time=wk.PROCESSING_TIME, windows=wk.tumbling("1 second"), aggs=wk.count())
ROLLING = wk.rolling(by="k", time="t", aggs=wk.sum("v").over(3))
JOIN = wk.join(by="k", left_time="t", right_time="t", within=3)
DISTINCT = wk.distinct("k", time="t", within=3)

Door = Callable[[Any], object]


class MineError(Exception):
    """What is not pyarrow's."""


class Handing:
    """What hands over whatever a function returns."""

    def __init__(self, hand: Callable[[], Any]) -> None:
        self.hand = hand

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.hand()


DOORS: dict[str, Door] = {
    "run": QUERY.run,
    "batches": lambda data: QUERY.batches(data).read_all(),
    "slices": QUERY.slices,
    "push, the first": lambda data: QUERY.operator().push(data),
    "rolling": ROLLING.run,
    "at, labels": lambda data: ROLLING.at(data, events=TABLE),
    "at, events": lambda data: ROLLING.at(TABLE, events=data),
    "join, left": lambda data: JOIN.run(data, TABLE),
    "join, right": lambda data: JOIN.run(TABLE, data),
    "join, batches": lambda data: JOIN.batches(TABLE, data).read_all(),
    "distinct": DISTINCT.run,
    "distinct, batches": lambda data: DISTINCT.batches(data).read_all(),
}
"""Doors that read batches."""
SCHEMAS: dict[str, Door] = {
    "schema": QUERY.schema,
    "explain": QUERY.explain,
    "operator": lambda data: QUERY.operator(schema=data),
    "rolling, schema": ROLLING.schema,
    "join, schema": lambda data: JOIN.schema(TABLE, data),
    "join, operator": lambda data: JOIN.operator(data, TABLE),
    "distinct, schema": DISTINCT.schema,
    "distinct, operator": DISTINCT.operator,
}
"""Doors that read no more than a schema."""
COLUMNS: dict[str, Door] = {
    "sliding": lambda data: kernels.sliding(data, 2, agg="sum"),
    "segments": lambda data: kernels.sliding(COLUMN, 2, agg="sum", segments=data),
    "sliding_by": lambda data: kernels.sliding_by(COLUMN, data, 2, agg="sum"),
    "assign, times": lambda data: Partitioner(2, window=10).assign(COLUMN, data),
    "assign, a dict": lambda data: Partitioner(2).assign({"k": data}),
    "candidates": lambda data: candidates(data, 2),
    "choose": lambda data: choose(data, 2),
    "cost": lambda data: cost(data, COLUMN),
    "cost, assignment": lambda data: cost(COLUMN, data),
    "plan": lambda data: plan(data, [], [], 2),
    "wids": lambda data: wk.tumbling(2).wids(data),
    "extent": lambda data: wk.tumbling(2).extent(data),
}
"""Doors that read a column."""


def window() -> kernels.Window:
    made = kernels.Window("sum", pa.int64())
    made.insert(COLUMN)
    return made


def pushed(op: Any, call: str = "push") -> Any:
    getattr(op, call)(TABLE)
    return op


KEEPING: dict[str, tuple[Callable[[], Any], Callable[[Any, Any], object], Callable[[Any], object]]] = {
    "push": (lambda: pushed(QUERY.operator()), lambda op, data: op.push(data), lambda op: op.snapshot()),
    "push, cast": (
        lambda: pushed(QUERY.operator(schema=OTHER)),
        lambda op, data: op.push(data),
        lambda op: op.snapshot(),
    ),
    "push_slices": (
        lambda: pushed(QUERY.operator(order="out-of-order")),
        lambda op, data: op.push_slices(data),
        lambda op: op.snapshot(),
    ),
    "push over processing time": (
        lambda: CLOCKED.operator(schema=SCHEMA, clock=lambda: 0),
        lambda op, data: op.push(data),
        lambda op: op.snapshot(),
    ),
    "push_left": (
        lambda: pushed(JOIN.operator(SCHEMA, SCHEMA), "push_left"),
        lambda op, data: op.push_left(data),
        lambda op: op.snapshot(),
    ),
    "push_right, cast": (
        lambda: pushed(JOIN.operator(SCHEMA, OTHER), "push_right"),
        lambda op, data: op.push_right(data),
        lambda op: op.snapshot(),
    ),
    "push, distinct": (
        lambda: pushed(DISTINCT.operator(SCHEMA)),
        lambda op, data: op.push(data),
        lambda op: op.snapshot(),
    ),
    "insert": (window, lambda made, data: made.insert(data), lambda made: (len(made), made.query())),
    "slide": (window, lambda made, data: made.slide(data, 3), lambda made: (len(made), made.query())),
    "HyperLogLog": (
        lambda: wk.HyperLogLog().update(COLUMN),
        lambda made, data: made.update(data),
        lambda made: made.to_bytes(),
    ),
    "assign": (
        lambda: Partitioner(2),
        lambda made, data: made.assign(data),
        lambda made: made.snapshot(),
    ),
}
"""Doors of what keeps a state: how it is made, the call, and the state."""


def keeping(name: str) -> Door:
    make, call, state = KEEPING[name]

    def door(data: Any) -> None:
        made = make()
        before = state(made)
        try:
            call(made, data)
        finally:
            assert state(made) == before

    return door


BATCHES: dict[str, Door] = {**DOORS, **{name: keeping(name) for name in KEEPING}}
ALL: dict[str, Door] = {**BATCHES, **SCHEMAS, **COLUMNS}
TAKE_READERS = [name for name in BATCHES if name not in ("insert", "slide", "HyperLogLog", "assign")]
ERRORS: list[BaseException] = [
    pa.ArrowInvalid("x"),
    pa.ArrowTypeError("x"),
    pa.ArrowNotImplementedError("x"),
    pa.ArrowKeyError("x"),
    pa.ArrowMemoryError("x"),
    pa.ArrowCancelled("x"),
    MineError("x"),
    ValueError("x"),
    OSError("x"),
    KeyboardInterrupt("x"),
]


def reader(error: BaseException) -> pa.RecordBatchReader:
    """Return batches of which the second fails."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield BATCH
        raise error

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


def raised_by(door: Door, data: Any) -> BaseException:
    with pytest.raises(BaseException) as raised:  # noqa: PT011 (what it is, the test asks)
        door(data)
    return raised.value


def check(raised: BaseException, error: BaseException) -> None:
    """Check what is raised for what an object raised."""
    if isinstance(error, pa.ArrowMemoryError):
        assert type(raised) is MemoryError
        assert raised.__cause__ is error
    elif isinstance(error, pa.ArrowException) and not isinstance(error, pa.ArrowCancelled):
        assert type(raised) is wk.InvalidValue
        assert raised.__cause__ is error
    else:
        assert raised is error


@pytest.mark.parametrize("door", ALL)
def test_what_objects_raise(door: str) -> None:
    for error in ERRORS:

        def fail(error: BaseException = error) -> Any:
            raise error

        check(raised_by(ALL[door], Handing(fail)), error)


@pytest.mark.parametrize("door", TAKE_READERS)
def test_what_readers_raise(door: str) -> None:
    for error in ERRORS:
        check(raised_by(BATCHES[door], reader(error)), error)


@pytest.mark.parametrize("door", [*BATCHES, *COLUMNS])
def test_what_fails_behind_a_c_stream(door: str) -> None:
    """It carries errors as text, of which pyarrow makes errors of its own."""
    for error in ERRORS:
        raised = raised_by(ALL[door], ForeignStream(reader(error)))
        if isinstance(error, KeyboardInterrupt | OSError):
            assert type(raised) is type(error)
        elif isinstance(error, MemoryError):
            assert type(raised) is MemoryError
        elif isinstance(error, NotImplementedError) and type(raised) is OSError:
            # Of pyarrow 17, whose C streams have the code of an input or output error for it.
            assert "NotImplemented" in str(raised)
        else:
            assert type(raised) is wk.InvalidValue
            assert isinstance(raised.__cause__, pa.ArrowException)
        if not isinstance(error, KeyboardInterrupt):
            assert ": x" in str(raised)


def released() -> Any:
    capsule = TABLE.__arrow_c_stream__()
    pa.RecordBatchReader.from_stream(Handing(lambda: capsule))
    return capsule


NO_STREAMS: list[Callable[[], Any]] = [
    lambda: None,
    lambda: (),
    SCHEMA.__arrow_c_schema__,
    TABLE.to_reader,
    released,
]


@pytest.mark.parametrize("door", ALL)
def test_what_is_no_stream(door: str) -> None:
    for hand in NO_STREAMS:
        raised = raised_by(ALL[door], Handing(hand))
        assert type(raised) is wk.InvalidValue
        assert "malformed Arrow data" in str(raised)
        assert raised.__cause__ is not None


OTHERS = [
    # Of the same layout: read as the other type, its values would be others.
    BATCH.set_column(1, "t", pa.array([1.0, 2.0])),
    BATCH.set_column(1, "t", pa.array(["x", "y"])),
    BATCH.rename_columns(["v", "t", "k"]),
    BATCH.drop_columns(["v"]),
    5,
]


@pytest.mark.parametrize("door", TAKE_READERS)
def test_batches_of_another_schema_than_their_reader(door: str) -> None:
    for other in OTHERS:
        raised = raised_by(BATCHES[door], pa.RecordBatchReader.from_batches(SCHEMA, iter([BATCH, other])))
        assert type(raised) is wk.InvalidValue
        assert "its stream" in str(raised)


@pytest.mark.parametrize("door", ["push, cast", "push_right, cast"])
@pytest.mark.parametrize(
    "rows",
    [
        TABLE.set_column(1, "t", pa.array([1, 2**31])),
        TABLE.set_column(0, "k", pa.array(["a", b"\xff"], pa.binary()).view(pa.string())),
    ],
)
def test_casts_that_lose_something(door: str, rows: pa.Table) -> None:
    for data in (rows, rows.to_reader(), ForeignStream(rows)):
        raised = raised_by(BATCHES[door], data)
        assert type(raised) is wk.InvalidValue
        assert raised.__cause__ is not None


def test_objects_of_python_that_are_no_columns() -> None:
    frame = pd.DataFrame({"k": ["a", 5], "t": [1, 2], "v": [1.0, 2.0]})
    for door in TAKE_READERS:
        raised = raised_by(BATCHES[door], frame)
        assert isinstance(raised, wk.InvalidValue | wk.InvalidType)


def test_runs_that_pyarrow_does_not_decode() -> None:
    lists = pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array([[1]]))
    for door in (COLUMNS["sliding"], lambda column: wk.HyperLogLog().update(column)):
        assert isinstance(raised_by(door, lists), wk.InvalidValue | wk.InvalidType)


def test_a_type_that_fails() -> None:
    class Kind:
        def __arrow_c_schema__(self) -> Any:
            raise pa.ArrowInvalid("x")

    with pytest.raises(wk.InvalidValue, match="time_type: malformed Arrow data: x"):
        wk.tumbling(2).extent(COLUMN, Kind())
    with pytest.raises(wk.InvalidValue, match="data: malformed Arrow data: x"):
        QUERY.schema(Kind())


ODD = [
    *(object(), set(), {1: 2}, [1], b"\xff", "x\ud800", 10**30, float("nan"), 1j, Decimal("NaN"), type, ...),
    *(datetime.datetime.max, datetime.date.max, datetime.timedelta.min, datetime.time(1), range(3)),
    *(np.float16(1), np.int64(3), np.bool_(True), np.array([1, 2]), np.array(1.5), np.datetime64("NaT")),
    *(np.datetime64("2020-01-01", "as"), np.timedelta64(5, "Y"), pa.scalar(None), pa.scalar([1])),
    *(pa.array([1]), pa.scalar(2**62, pa.timestamp("s")), pa.scalar(2**63 - 1).cast(pa.timestamp("ns"))),
]
"""Values of Python, few of which are any time, key, column or type."""
ODD_TIMES = [pa.int64(), pa.timestamp("ns"), pa.date32(), pa.duration("us"), pa.timestamp("s", "UTC")]
ODD_KEYS = [pa.string(), pa.int8(), pa.decimal128(5, 2), pa.date32(), pa.timestamp("ns", "UTC"), pa.binary(2)]
ODD_KEYS += [pa.float32(), pa.bool_(), pa.time64("ns"), pa.duration("s"), pa.list_(pa.int8())]


def odd_doors() -> Iterator[Door]:
    for kind in ODD_TIMES:
        query = wk.query(by=[], time="t", windows=wk.punctuation("d"), aggs=wk.count())
        op = query.operator(order="out-of-order", schema=pa.schema({"t": kind, "d": pa.bool_()}))
        within = 3 if kind == pa.int64() else "3 days"
        side = pa.schema({"t": kind})
        join = wk.join(by=[], left_time="t", right_time="t", within=within).operator(side, side)
        yield from (op.advance, op.punctuate, join.advance_left)
    for kind in ODD_KEYS:
        by = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count())
        keyed = by.operator(order="out-of-order", schema=pa.schema({"k": kind, "t": pa.int64()}))
        yield from (keyed.peek, lambda key, op=keyed: op.advance(5, key={"k": key}))
        yield kernels.Window("count", kind).insert
    yield from COLUMNS.values()
    yield from DOORS.values()
    yield from SCHEMAS.values()
    yield wk.HyperLogLog.from_bytes
    yield lambda kind: wk.tumbling(2).extent(COLUMN, kind)
    yield lambda at: wk.tumbling(10, start_time=at)
    yield lambda bias: cost(COLUMN, COLUMN, bias=bias)


def is_refused(door: Door, value: object) -> bool:
    try:
        door(value)
    except wk.WindowKitError:
        return True
    return False


def test_values_of_python_that_are_no_arguments() -> None:
    assert sum(is_refused(door, value) for door in odd_doors() for value in ODD) > 1500
