"""What a user's function or window refers to is freed with what calls it, and not before."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import windowkit as wk
from windowkit import _native
from windowkit.local import join as local_join
from windowkit.local import query as local_query
from windowkit.local import rolling as local_rolling

ROWS = pa.table({"k": [1, 1, 2, 2], "t": [1, 5, 12, 27], "v": [1.0, 2.0, 3.0, 4.0]})
LATER = pa.table({"k": [1, 2], "t": [31, 45], "v": [5.0, 6.0]})
LATEST = pa.table({"k": [1, 2], "t": [52, 61], "v": [7.0, 8.0]})


class Owner:
    """What functions and definitions refer to, and what refers to that which calls them."""

    called: Any = None


def total(owner: Owner) -> Any:
    def lift(values: pa.Array) -> pa.Array:
        assert isinstance(owner, Owner)
        return values

    return wk.aggregate("total", lift=lift, combine=pc.add, lower=lambda states: states, commutative=True)


class Tens(wk.ContextFree):
    """Tumbling windows of ten."""

    longest = 10

    def __init__(self, owner: Owner) -> None:
        self.owner = owner

    def next_edge(self, t: int) -> int:
        return t - t % 10 + 10

    def windows(self, since: int, until: int) -> list[tuple[int, int]]:
        return [(end - 10, end) for end in range(since + 1, until + 1) if end % 10 == 0]


class Pairs(wk.ContextAware):
    """Each row and the next; what is opened refers to the owner, and the definition does not."""

    columns = ()

    def __init__(self, owner: Owner) -> None:
        self.owner = weakref.ref(owner)

    def open(self) -> OpenedPairs:
        return OpenedPairs(self.owner())

    def __reduce__(self) -> Any:
        return Pairs, (Owner(),)


class OpenedPairs:
    def __init__(self, owner: Owner | None) -> None:
        self.owner = owner
        if owner is not None:
            OPENED_FOR[id(owner)] = owner

    def __reduce__(self) -> Any:
        return reopened, (id(self.owner),)

    def notify(self, first: int, times: pa.Array) -> Iterator[wk.Add]:
        return (wk.Add(rank - 1, rank + 1) for rank in range(max(first, 1), first + len(times)))

    def finish(self, rows: int) -> Iterable[wk.Add]:
        return []


OPENED_FOR = weakref.WeakValueDictionary[int, Owner]()


def reopened(number: int) -> OpenedPairs:
    """Return what was pickled, with the owner that it had, as an identifier of this process tells it."""
    return OpenedPairs(OPENED_FOR.get(number))


def by_function(owner: Owner) -> wk.Query:
    return wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=total(owner)("v").alias("total"))


def by_edges(owner: Owner) -> wk.Query:
    return wk.query(by="k", time="t", windows=wk.custom(Tens(owner)), aggs=wk.sum("v").alias("total"))


def by_rows(owner: Owner) -> wk.Query:
    return wk.query(by="k", time="t", windows=wk.custom(Pairs(owner)), aggs=wk.sum("v").alias("total"))


QUERIES: dict[str, Callable[[Owner], wk.Query]] = {
    "function": by_function,
    "edges": by_edges,
    "rows": by_rows,
}


def operator(query: wk.Query) -> wk.Operator:
    made = query.operator()
    made.push(ROWS)
    return made


def restored(query: wk.Query) -> wk.Operator:
    made = wk.Operator.restore(operator(query).snapshot(), query)
    # What was opened for keys is restored as it is needed.
    made.push(LATER)
    return made


def added(query: wk.Query) -> wk.Operator:
    made = wk.query(by="k", time="t", windows=wk.tumbling(5), aggs=wk.sum("v").alias("total")).operator(
        schema=ROWS.schema
    )
    made.add(query, name="later")
    made.push(ROWS)
    return made


def plan(query: wk.Query) -> _native.Plan:
    return local_query.plan(query, ROWS.schema)


def engine(query: wk.Query) -> _native.Engine:
    made = plan(query).engine()
    made.push(ROWS.to_batches()[0])
    return made


def batches(query: wk.Query) -> _native.Batches:
    return engine(query).finish()


def synchronized(query: wk.Query) -> Any:
    return _native.Synchronized(iter(batches(query)), lambda work: work(), lambda batch: (query, batch))


OF_QUERIES: list[Callable[[wk.Query], Any]] = [operator, restored, added, plan, engine, batches, synchronized]


def rolling(owner: Owner) -> Any:
    own = wk.rolling(by="k", time="t", aggs=total(owner)("v").over(10))
    return local_rolling.bound(own, ROWS.schema)


def rolling_plan(owner: Owner) -> Any:
    return rolling(owner).plan


def join(owner: Owner) -> wk.Join:
    return wk.join(by="k", left_time="t", right_time="t", windows=wk.custom(Tens(owner)))


def joined(owner: Owner) -> Any:
    return local_join.bound(join(owner), ROWS.schema, ROWS.schema)


def join_batches(owner: Owner) -> Any:
    return joined(owner).run(ROWS, ROWS, 1)


def join_operator(owner: Owner) -> Any:
    made = join(owner).operator(ROWS.schema, ROWS.schema)
    made.push_left(ROWS)
    return made


def join_restored(owner: Owner) -> Any:
    return wk.JoinOperator.restore(join_operator(owner).snapshot(), join(owner))


OF_OWNERS: list[Callable[[Owner], Any]] = [
    rolling,
    rolling_plan,
    joined,
    join_batches,
    join_operator,
    join_restored,
]

CASES: dict[str, Callable[[Owner], Any]] = {
    **{
        f"{make.__name__}, {kind}": (lambda owner, make=make, of=of: make(of(owner)))  # type: ignore[misc]
        for make in OF_QUERIES
        for kind, of in QUERIES.items()
    },
    **{make.__name__: make for make in OF_OWNERS},
}


@pytest.mark.parametrize("case", CASES)
def test_what_refers_to_itself_by_its_functions_is_freed(case: str) -> None:
    owner = Owner()
    owner.called = CASES[case](owner)
    alive = weakref.ref(owner)
    gc.collect()
    assert alive() is owner
    del owner
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("make", [operator, restored, added])
def test_functions_of_an_operator_that_is_in_use_are_not_freed(
    kind: str, make: Callable[[wk.Query], wk.Operator]
) -> None:
    owner = Owner()
    used = owner.called = make(QUERIES[kind](owner))
    # Of the same query, and freed.
    for other in OF_QUERIES:
        other(QUERIES[kind](owner))
    alive = weakref.ref(owner)
    del owner
    gc.collect()
    assert alive() is not None
    used.push(LATEST)
    gc.collect()
    oracle = make(QUERIES[kind](Owner()))
    oracle.push(LATEST)
    assert used.close() == oracle.close()


def test_a_query_that_is_removed_is_freed_with_its_functions() -> None:
    owner = Owner()
    used = added(by_function(owner))
    alive = weakref.ref(owner)
    del owner
    gc.collect()
    assert alive() is not None
    used.remove("later")
    # Until it is called again, it is also known what there was before.
    used.push(LATER)
    gc.collect()
    assert alive() is None
    assert used.close().num_rows


def test_what_ends_an_operator_as_it_is_freed_gets_its_windows() -> None:
    ended = list[pa.Table]()

    class Closing(Owner):
        def __del__(self) -> None:
            ended.append(self.called.close())

    for of in QUERIES.values():
        owner = Closing()
        owner.called = operator(of(owner))
        expected = operator(of(Owner())).close()
        del owner
        gc.collect()
        assert ended.pop() == expected
