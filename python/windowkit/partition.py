"""Partition rows among workers, weighing imbalance against aggregation cost.

A grouped aggregation runs in three stages: rows are partitioned, each worker makes partial results of its
rows, and partial results of one key are aggregated. The second stage waits for the fullest worker, and the
third has one partial result for each pair of key and worker (Katsipoulakis et al., *A Holistic View of
Stream Partitioning Costs*, VLDB 2017). `Partitioner` assigns rows, `cost` says what an assignment costs,
`choose` which method suits some keys, and `plan` decides for a histogram of keys at once.

>>> import pyarrow as pa
>>> import windowkit as wk
>>> keys = pa.array(["hot"] * 9_000 + [f"key {i}" for i in range(1_000)])
>>> wk.partition.cost(keys, wk.partition.Partitioner(8, "hash").assign(keys), workers=8).load_ratio > 7
True
>>> level = wk.partition.cost(keys, wk.partition.Partitioner(8).assign(keys), workers=8)
>>> level.load_ratio < 1.05, level.aggregation_cost - level.groups
(True, 7)

Keys
----
Wherever this module takes keys, they are an Arrow array, chunked array, or several columns as a record
batch, table or dict of columns, of any types but maps and unions; or what offers itself as such (Polars,
pandas, NumPy, a list). Keys are equal as in SQL's ``GROUP BY``: null is a key like any other, NaN equals
NaN, and -0.0 equals 0.0. Where a null or a NaN goes is decided by its hash, as for any key.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from windowkit import _native
from windowkit.durations import Length
from windowkit.durations import Rows as RowCount
from windowkit.errors import InvalidType, InvalidValue
from windowkit.query import is_spark
from windowkit.windows import Tumbling, Window, tumbling

__all__ = [
    "METHODS",
    "Choice",
    "Cost",
    "Partitioner",
    "Plan",
    "Rows",
    "Statistics",
    "candidates",
    "choose",
    "cost",
    "plan",
    "rows",
]


def __dir__() -> list[str]:
    return sorted(__all__)


WindowTuple: TypeAlias = tuple[str, int, int]

METHODS: Final = ("waterfill", "shuffle", "hash", "partial-key", "cm", "am", "cam", "lm")
"""The names that `Partitioner` understands, beside the paper's abbreviations."""
MOST_WORKERS: Final = 2**16


@dataclass(frozen=True)
class Rows:
    """Windows that count rows; see `rows`."""

    size: int


def rows(size: int) -> Rows:
    """Return windows of `size` rows each, by the order of rows.

    Raises
    ------
    InvalidType, InvalidValue
        `size` is no int, or below 1.

    Examples
    --------
    >>> import pyarrow as pa
    >>> shuffle = Partitioner(3, "shuffle", window=rows(4))
    >>> workers = shuffle.assign(pa.array(range(8)))
    >>> workers[:4] == workers[4:]
    True
    """
    return Rows(_integer("size", size, 1, 2**62, "a number of rows"))


class Partitioner:
    """Assigns rows to workers, batch after batch.

    Decisions depend on the parameters and on the rows since the start, not on how they come in batches, and
    are the same on every platform. A Partitioner can be pickled, and continues where it was.

    Parameters
    ----------
    workers : int
        1 to 65,536.
    method : str, default "waterfill"
        In brackets the paper's names, which are understood too:

        - ``waterfill``: by the key's hash, but rows of the few heavy keys fill up the workers below the
          mean. Both costs are low on any skew; memory is constant. See the notes.
        - ``shuffle`` (SH): round robin. No imbalance, up to workers × keys to aggregate.
        - ``hash`` (FLD): by the key's hash. Least to aggregate; as imbalanced as the keys.
        - ``partial-key`` (PK): the candidate with the fewest rows.
        - ``cm``: the candidate with the fewest distinct keys (Alg. 2).
        - ``am``, ``cam``: the candidate that has the key already; a new key goes to the candidate with the
          fewest keys (Alg. 3) or rows (Alg. 4).
        - ``lm``: the candidate with the least of both, normalised and weighed by `bias` (Alg. 5).
    candidates : int, optional
        Candidate workers of a key, by independent hash functions; at most `workers`, and by default 2 where
        there are as many. Two of them may be the same worker. See `candidates`.
    cardinality : str, default "hll"
        How ``cm``, ``am``, ``cam`` and ``lm`` count distinct keys: ``exact`` (sets), ``hll`` (HyperLogLog
        with 4096 registers a worker; whether a worker has a key is then a guess, which says yes too often
        once keys outnumber registers), or ``filter`` (a membership filter that grows, with 0.5 % of false
        answers at any number of keys).
    bias : float, default 0.5
        p of Eq. 9 in [0, 1]: the weight of rows against distinct keys in ``lm``.
    window : Tumbling, str, datetime.timedelta, int or Rows, optional
        When loads and cardinalities start anew: by event time, as `windowkit.tumbling` takes it, or with
        `rows`. ``waterfill`` remembers which keys are heavy from one window to the next.
    seed : int, default 0
        0 to 2**64 - 1; of all hash functions.

    Raises
    ------
    InvalidType, InvalidValue
        A parameter is outside what is allowed.

    Notes
    -----
    Of d keys and n rows so far in a window, ``waterfill`` sends at most ``max(0.01 * d, n / (8 * workers),
    workers - 1)`` pairs of key and worker more to aggregation than there are keys, by an estimate of d that
    errs on the safe side; and of these no more than ``max(0.01 * d, 16 * workers)`` unless a worker is five
    percent above the mean, or a key alone has more than a fair share. It puts rows of a heavy key on no
    worker above 1.008 times the mean and two rows, as long as that allowance of pairs is not spent. So loads
    are level where two things hold: the rows of heavy keys suffice to level the others, and the pairs that it
    takes are allowed. Levelling may take ``workers - 1`` of them; they are allowed from ``8 * workers**2``
    rows on (8,192 rows for 32 workers, 524,288 for 256), or if one key alone is what needs levelling. With
    fewer rows, and keys of about a fair share each, ``partial-key`` or ``cam`` level better; `choose` says
    so. A key is heavy above one sixteenth of a worker's fair share of recent rows.

    Each decision is O(1) for ``waterfill``, ``shuffle`` and ``hash`` and O(candidates) for the others,
    amortised, whatever the number of workers.

    Examples
    --------
    >>> import pyarrow as pa
    >>> partitioner = Partitioner(4, "cam", cardinality="exact")
    >>> workers = partitioner.assign(pa.array(["a", "b", "a", None, None]))
    >>> workers[0] == workers[2], workers[3] == workers[4]
    (True, True)
    >>> sum(partitioner.loads()), sum(partitioner.cardinalities())
    (5, 3.0)
    """

    _native: _native.Partitioner
    _window: Tumbling | Rows | None

    def __init__(
        self,
        workers: int,
        method: str = "waterfill",
        *,
        candidates: int | None = None,
        cardinality: str = "hll",
        bias: float = 0.5,
        window: Tumbling | Length | Rows | None = None,
        seed: int = 0,
    ) -> None:
        count = _workers(workers)
        self._native = _native.Partitioner(
            count,
            _text("method", method),
            _candidates(candidates, count),
            _text("cardinality", cardinality),
            _fraction("bias", bias),
            _window(window),
            _seed(seed),
        )

    @property
    def workers(self) -> int:
        """Number of workers."""
        return self._native.parameters[0]

    @property
    def method(self) -> str:
        """The method, by its long name."""
        return self._native.parameters[1]

    def assign(self, keys: Any, times: Any = None) -> pa.Int32Array:
        """Return the worker of each row, 0 to ``workers - 1``.

        All or nothing: after an error the state is as before.

        Parameters
        ----------
        keys : Arrow data
            The rows' keys; see the module.
        times : Arrow array, optional
            The rows' event times if the window is one of event time: a timestamp, date or duration, or an
            integer for a window of an integer length. Rows of one window may come in any order, but windows
            do not go back.

        Returns
        -------
        pyarrow.Int32Array
            One worker a row; no nulls.

        Raises
        ------
        InvalidType
            Keys cannot be hashed, or are of other columns or types than before; times cannot carry windows.
        InvalidValue
            Times are missing, null, not as many as keys, or of a window that has ended.

        Examples
        --------
        >>> import pyarrow as pa
        >>> partitioner = Partitioner(2, "shuffle", window=10)
        >>> partitioner.assign(pa.array(["a"] * 5), pa.array([1, 2, 11, 13, 12])).to_pylist()
        [1, 0, 1, 0, 1]
        >>> partitioner.loads()
        [1, 2]
        """
        return pa.array(self._native.assign(_reader(keys, times), times is not None))

    def reset(self) -> None:
        """Forget all rows, as if newly made.

        Examples
        --------
        >>> import pyarrow as pa
        >>> partitioner = Partitioner(2)
        >>> first = partitioner.assign(pa.array([1, 1, 2]))
        >>> partitioner.reset()
        >>> partitioner.assign(pa.array([1, 1, 2])) == first
        True
        """
        self._native.reset()

    def loads(self) -> list[int]:
        """Return the rows of each worker in the current window."""
        return self._native.loads()

    def cardinalities(self) -> list[float]:
        """Return the (estimated) distinct keys of each worker in the current window.

        Raises
        ------
        InvalidValue
            The method does not count them: only ``cm``, ``am``, ``cam`` and ``lm`` do.
        """
        return self._native.cardinalities()

    def memory(self) -> int:
        """Return the size of the state in bytes."""
        return self._native.memory()

    def explain(self) -> str:
        """Return what the partitioner does and has come to, in words.

        Examples
        --------
        >>> print(Partitioner(4, "pk").explain())
        partial-key over 4 workers, 2 candidates a key
        0 rows in this window, after 0 others
        """
        return self._native.explain()

    def snapshot(self) -> bytes:
        """Return the state as bytes, with its parameters, a version and a checksum.

        Examples
        --------
        >>> import pyarrow as pa
        >>> partitioner = Partitioner(4, "lm")
        >>> first = partitioner.assign(pa.array([1, 1, 2]))
        >>> other = Partitioner.restore(partitioner.snapshot())
        >>> other.assign(pa.array([1, 1, 2])) == partitioner.assign(pa.array([1, 1, 2]))
        True
        """
        return bytes(self._native.snapshot())

    @classmethod
    def restore(cls, snapshot: bytes, **parameters: Any) -> Partitioner:
        """Return the partitioner that `snapshot` was taken of; it continues where that one was.

        Parameters
        ----------
        snapshot : bytes
            What `snapshot` returned.
        **parameters
            Parameters of `Partitioner` that the snapshot must have, for a caller who knows.

        Raises
        ------
        InvalidType, InvalidValue
            The bytes are no snapshot, damaged, of another version, or of other parameters.

        Examples
        --------
        >>> Partitioner.restore(Partitioner(4).snapshot(), workers=8)
        Traceback (most recent call last):
        ...
        windowkit.errors.InvalidValue: snapshot: it was taken with workers=4; it was asked to have workers=8
        """
        if not isinstance(snapshot, bytes | bytearray | memoryview):
            raise InvalidType(
                f"snapshot: {snapshot!r:.60} is a {type(snapshot).__name__}; a snapshot is bytes"
            )
        restored = cls.__new__(cls)
        restored._native = _native.Partitioner.restore(bytes(snapshot))
        if parameters:
            restored._check(parameters)
        return restored

    def _parameters(self) -> tuple[Any, ...]:
        """Return the parameters, with the window as it is given."""
        *others, window, seed = self._native.parameters
        return *others, None if window is None else _shown(window), seed

    def _check(self, expected: dict[str, Any]) -> None:
        own = dict(zip(PARAMETERS, self._parameters(), strict=True))
        unknown = sorted(set(expected) - set(own))
        if unknown:
            raise InvalidType(
                f"parameters: {unknown[0]!r} is no parameter of a Partitioner; they are {', '.join(own)}"
            )
        wanted = Partitioner(**{"workers": own["workers"], "method": own["method"], **expected})
        for name, other in zip(PARAMETERS, wanted._parameters(), strict=True):
            if name in expected and other != own[name]:
                raise InvalidValue(
                    f"snapshot: it was taken with {name}={own[name]!r}; it was asked to have {name}={other!r}"
                )

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return Partitioner.restore, (self.snapshot(),)

    def __repr__(self) -> str:
        workers, method, candidates, cardinality, bias, window, seed = self._parameters()
        shown = "" if window is None else f", window={window}"
        return (
            f"Partitioner({workers}, {method!r}, candidates={candidates}, cardinality={cardinality!r}, "
            f"bias={bias}{shown}, seed={seed})"
        )


PARAMETERS: Final = ("workers", "method", "candidates", "cardinality", "bias", "window", "seed")


def candidates(
    keys: Any, workers: int, *, candidates: int | None = None, seed: int = 0
) -> pa.FixedSizeListArray:
    """Return the candidate workers of each row's key: what ``Partitioner`` chooses from.

    The first of them is where the method ``hash`` sends the key. Candidate j of a key with the 64-bit hash
    h is ``(mix(h, j + 1) * workers) >> 64`` for a fixed function ``mix``, so that the candidates of a key
    are independent and may coincide.

    Parameters
    ----------
    keys : Arrow data
        The rows' keys; see the module.
    workers, candidates, seed : int
        As in `Partitioner`.

    Returns
    -------
    pyarrow.FixedSizeListArray
        Lists of `candidates` int32, one a row.

    Raises
    ------
    InvalidType, InvalidValue
        A parameter is outside what is allowed, or keys cannot be hashed.

    Examples
    --------
    >>> import pyarrow as pa
    >>> places = candidates(pa.array(["a", "b", "a"]), 8, candidates=3)
    >>> places[0] == places[2], len(places[1])
    (True, 3)
    """
    count = _workers(workers)
    choices = _candidates(candidates, count)
    if choices > count:
        raise InvalidValue(f"candidates: {choices} is out of range; allowed is 1 to {count}, the workers")
    flat = pa.array(_native.partition_candidates(_reader(keys), count, choices, _seed(seed)))
    return pa.FixedSizeListArray.from_arrays(flat, choices)


@dataclass(frozen=True)
class Cost:
    """What an assignment costs, window by window and overall; made by `cost`.

    Windows are evaluated one after the other, so that overall figures are sums over windows; only
    `hybrid_imbalance`, which is no amount of work, is their mean.

    Attributes
    ----------
    workers : int
        V, the number of workers.
    bias : float
        p of Eq. 9.
    windows : pyarrow.Table
        A row for each window: ``window`` (its start; absent without windows), ``rows``, ``groups``
        (distinct keys), ``most_rows`` and ``most_groups`` (of the worker with most), ``imbalance`` (Eq. 1),
        ``cardinality_imbalance`` (Eq. 6), ``hybrid_imbalance`` (Eq. 10), ``aggregation_cost`` (Eq. 2, 4)
        and its bounds by Prop. 1, ``least_aggregation_cost`` and ``most_aggregation_cost``.
    """

    workers: int
    bias: float
    windows: pa.Table

    def _sum(self, column: str) -> Any:
        return sum(self.windows[column].to_pylist())

    @property
    def rows(self) -> int:
        """Rows."""
        return int(self._sum("rows"))

    @property
    def groups(self) -> int:
        """Distinct keys, window by window."""
        return int(self._sum("groups"))

    @property
    def imbalance(self) -> float:
        """I, in rows: by how much the fullest worker exceeds the mean (Eq. 1)."""
        return float(self._sum("imbalance"))

    @property
    def load_ratio(self) -> float:
        """Rows of the fullest worker over the mean: 1 is perfect; without rows it is 1."""
        most = self._sum("most_rows")
        return float(most * self.workers / self.rows) if self.rows else 1.0

    @property
    def cardinality_imbalance(self) -> float:
        """CI, the same in distinct keys (Eq. 6)."""
        return float(self._sum("cardinality_imbalance"))

    @property
    def hybrid_imbalance(self) -> float:
        """HI, the same in the normalised mean of both (Eq. 10): the mean over windows."""
        return float(self._sum("hybrid_imbalance") / max(self.windows.num_rows, 1))

    @property
    def aggregation_cost(self) -> int:
        """Γ: distinct keys of each worker, summed over workers (Eq. 2, 4)."""
        return int(self._sum("aggregation_cost"))

    @property
    def aggregation_ratio(self) -> float:
        """Γ over its minimum, the distinct keys: 1 is perfect; without rows it is 1."""
        return self.aggregation_cost / self.groups if self.groups else 1.0

    @property
    def bounds(self) -> tuple[int, int]:
        """The bounds of Γ by Prop. 1: distinct keys, and as many for each worker."""
        return self.groups, self.workers * self.groups

    def __str__(self) -> str:
        least, most = self.bounds
        return (
            f"imbalance {self.imbalance:.1f} rows (fullest worker {self.load_ratio:.4f} times the mean), "
            f"aggregation cost {self.aggregation_cost} (of {least} to {most}), "
            f"cardinality imbalance {self.cardinality_imbalance:.1f}, "
            f"hybrid imbalance {self.hybrid_imbalance:.4f}"
        )


def cost(
    keys: Any,
    assignment: Any,
    *,
    workers: int | None = None,
    window: Tumbling | Length | Rows | None = None,
    times: Any = None,
    bias: float = 0.5,
) -> Cost:
    """Return what an assignment of rows to workers costs.

    Parameters
    ----------
    keys : Arrow data
        The rows' keys; see the module.
    assignment : Arrow array
        The rows' workers: integers from 0.
    workers : int, optional
        Number of workers; by default the largest in `assignment` and one, which overlooks workers without
        rows.
    window, times
        As in `Partitioner` and `Partitioner.assign`, except that times may come in any order.
    bias : float, default 0.5
        p of Eq. 9.

    Returns
    -------
    Cost
        Exact: keys are compared, not hashed. O(rows) for times in order.

    Raises
    ------
    InvalidType, InvalidValue
        An argument is outside what is allowed, or lengths differ.

    Examples
    --------
    The example of §2.2 of the paper: worker 0 gets x and y, worker 1 gets x, y and z.

    >>> import pyarrow as pa
    >>> keys = pa.array(["x"] * 12 + ["y"] * 123 + ["x"] * 43 + ["y"] + ["z"] * 4)
    >>> costs = cost(keys, pa.array([0] * 135 + [1] * 48))
    >>> costs.imbalance, costs.aggregation_cost, costs.bounds
    (43.5, 5, (3, 6))
    """
    reader = _reader(keys)
    assigned = _column("assignment", assignment)
    if not pa.types.is_integer(assigned.type) and len(assigned):
        raise InvalidType(f"assignment: it is {assigned.type}; workers are integers")
    if assigned.null_count:
        raise InvalidValue(f"assignment: {assigned.null_count} rows have no worker; every row has one")
    try:
        assigned = assigned.cast(pa.int32())
    except pa.ArrowInvalid as error:
        raise InvalidValue(f"assignment: {error}; workers are 0 to {MOST_WORKERS - 1}") from None
    if len(assigned) != reader.num_rows:
        raise InvalidValue(
            f"assignment: it has {len(assigned)} rows, and keys have {reader.num_rows}; each row has one"
        )
    count, starts, costs = _native.partition_cost(
        reader,
        assigned,
        None if times is None else _column("times", times),
        _window(window),
        None if workers is None else _workers(workers),
        _fraction("bias", bias),
    )
    names = ["rows", "groups", "most_rows", "most_groups", "imbalance", "cardinality_imbalance"]
    names += ["hybrid_imbalance", "aggregation_cost"]
    kinds = [pa.int64()] * 4 + [pa.float64()] * 3 + [pa.int64()]
    columns = {
        name: pa.array([row[position] for row in costs], kind)
        for position, (name, kind) in enumerate(zip(names, kinds, strict=True), start=1)
    }
    groups = columns["groups"].to_pylist()
    columns["least_aggregation_cost"] = columns["groups"]
    columns["most_aggregation_cost"] = pa.array([count * distinct for distinct in groups], pa.int64())
    if starts is not None:
        columns = {"window": pa.array(starts), **columns}
    return Cost(count, float(bias), pa.table(columns))


@dataclass(frozen=True)
class Statistics:
    """How rows are spread over keys, in one window: what `choose` needs to know.

    Parameters
    ----------
    rows : int
        Number of rows.
    groups : int
        Number of distinct keys.
    heaviest : int
        Rows of the heaviest key.
    squares : float, optional
        Sum over keys of their squared rows; by default as if all other keys were equally heavy.

    Examples
    --------
    >>> Statistics.of_counts([5, 3, 2])
    Statistics(rows=10, groups=3, heaviest=5, squares=38.0)
    """

    rows: int
    groups: int
    heaviest: int
    squares: float | None = None

    @classmethod
    def of(cls, keys: Any) -> Statistics:
        """Return the statistics of rows with these keys."""
        return cls(*_native.partition_statistics(_reader(keys)))

    @classmethod
    def of_counts(cls, counts: Sequence[int]) -> Statistics:
        """Return the statistics of keys with so many rows each, as a histogram has them."""
        known = [_integer("counts", count, 0, 2**62, "a number of rows") for count in counts]
        present = [count for count in known if count]
        heaviest = max(present, default=0)
        return cls(sum(present), len(present), heaviest, float(sum(count * count for count in present)))

    def _tuple(self) -> tuple[int, int, int, float]:
        total, groups, heaviest = (
            _integer(name, getattr(self, name), 0, 2**62, "a count")
            for name in ("rows", "groups", "heaviest")
        )
        squares = self.squares
        if squares is None:
            squares = float(heaviest**2 + max(total - heaviest, 0) ** 2 / max(groups - 1, 1))
        if isinstance(squares, bool) or not isinstance(squares, int | float):
            raise InvalidType(f"squares: {squares!r} is a {type(squares).__name__}; it is a number")
        return total, groups, heaviest, float(squares)


@dataclass(frozen=True)
class Choice:
    """A method and why; made by `choose`.

    Attributes
    ----------
    method : str
        The method to use.
    rule : str
        The method that the paper's selection rule names.
    reason : str
        Why, in words, with the costs that were expected.
    statistics : Statistics
        What the choice was made from.
    """

    method: str
    rule: str
    reason: str
    statistics: Statistics

    def __str__(self) -> str:
        return f"{self.method}: {self.reason}"


def choose(keys: Any, workers: int) -> Choice:
    """Return the method that suits some keys.

    The paper's rule (§7): shuffle if the distinct keys are significantly fewer (here: ten times) than the
    rows of a worker's share, else affinity. What is chosen is the method with the least expected sum of the
    fullest worker's rows and the aggregation cost, the simplest of those within one percent, and
    `Choice.reason` says so where this is not what the rule says.

    Parameters
    ----------
    keys : Statistics or Arrow data
        The statistics of the keys of a window, or such keys: all of them, as a sample has too few of the
        rare.
    workers : int
        Number of workers.

    Raises
    ------
    InvalidType, InvalidValue
        An argument is outside what is allowed, or the statistics are impossible.

    Examples
    --------
    >>> choose(Statistics(rows=6_000_000, groups=4, heaviest=3_000_000), workers=32).method
    'shuffle'
    >>> choice = choose(Statistics(rows=4_000_000, groups=500_000, heaviest=280_000), workers=32)
    >>> choice.method, choice.rule
    ('waterfill', 'cam')
    """
    statistics = keys if isinstance(keys, Statistics) else Statistics.of(keys)
    method, rule, reason = _native.partition_choose(statistics._tuple(), _workers(workers))
    return Choice(method, rule, reason, statistics)


@dataclass(frozen=True)
class Plan:
    """Which worker gets which bucket, and which part of which heavy key; made by `plan`.

    Attributes
    ----------
    buckets : pyarrow.Int32Array
        The worker of each bucket, for all keys that are not heavy.
    heavy : pyarrow.ListArray
        For each heavy key its ``struct<worker: int32, rows: int64, share: double>``: the rows are integers
        that add up to the key's rows, the shares the same as fractions.
    loads : pyarrow.Int64Array
        The rows that each worker will get.
    imbalance : float
        By how many rows the fullest worker exceeds the mean (Eq. 1).
    extra_aggregation_cost : int
        By how much the aggregation cost (Eq. 2) exceeds the distinct keys: less than the number of workers.
    """

    buckets: pa.Int32Array
    heavy: pa.ListArray
    loads: pa.Int64Array
    imbalance: float
    extra_aggregation_cost: int

    @property
    def load_ratio(self) -> float:
        """Rows of the fullest worker over the mean."""
        loads = self.loads.to_pylist()
        return max(loads) * len(loads) / sum(loads) if sum(loads) else 1.0


def plan(
    bucket_loads: Any, heavy_counts: Any, heavy_buckets: Any, workers: int, *, slack: float = 0.005
) -> Plan:
    """Decide for a whole histogram which worker gets what.

    Buckets go to workers by longest processing time first; then heavy keys, the heaviest first, are poured
    over them to level the workers, each over as few workers as will do.

    Parameters
    ----------
    bucket_loads : Arrow array or sequence of int
        Rows of each hash bucket, heavy keys included; many more buckets than workers.
    heavy_counts, heavy_buckets : Arrow array or sequence of int
        Rows of each heavy key, and the bucket that it hashes to.
    workers : int
        Number of workers.
    slack : float, default 0.005
        A heavy key is not split if it overfills a worker by at most this part of the level.

    Returns
    -------
    Plan
        O(B log B + H log V) for B buckets, H heavy keys and V workers.

    Raises
    ------
    InvalidType, InvalidValue
        An argument is outside what is allowed, or heavy keys have more rows than their bucket.

    Examples
    --------
    >>> level = plan([60, 20, 20, 20], [50], [0], workers=3)
    >>> level.buckets.to_pylist(), level.loads.to_pylist()
    ([0, 0, 1, 2], [40, 40, 40])
    >>> [(part["worker"], part["rows"]) for part in level.heavy[0].as_py()]
    [(2, 20), (1, 20), (0, 10)]
    """
    loads = _counts("bucket_loads", bucket_loads)
    counts, buckets = _counts("heavy_counts", heavy_counts), _counts("heavy_buckets", heavy_buckets)
    if len(counts) != len(buckets):
        raise InvalidValue(
            f"heavy_buckets: there are {len(buckets)}, and {len(counts)} heavy_counts; a heavy key has both"
        )
    for key, bucket in enumerate(buckets):
        if bucket >= len(loads):
            raise InvalidValue(
                f"heavy_buckets: key {key} is in bucket {bucket}; allowed is 0 to {len(loads) - 1}"
            )
    of_buckets, shares, of_workers, imbalance, extra = _native.partition_plan(
        loads, list(zip(counts, buckets, strict=True)), _workers(workers), _fraction("slack", slack)
    )
    part = pa.struct([("worker", pa.int32()), ("rows", pa.int64()), ("share", pa.float64())])
    heavy = [
        [{"worker": worker, "rows": share, "share": share / count} for worker, share in parts]
        for parts, count in zip(shares, counts, strict=True)
    ]
    return Plan(
        pa.array(of_buckets, pa.int32()),
        pa.array(heavy, pa.list_(part)),
        pa.array(of_workers, pa.int64()),
        imbalance,
        extra,
    )


# Arguments.


def _reader(keys: Any, times: Any = None) -> pa.Table:
    """Return keys, and times if there are any as the last column, as a table with chunks in step."""
    columns = _columns(keys)
    if times is not None:
        column = _column("times", times)
        if len(column) != len(columns[0]):
            raise InvalidValue(
                f"times: there are {len(column)}, and {len(columns[0])} keys; every row has one time"
            )
        columns = [*columns, column]
    return pa.table(columns, names=[f"column {position}" for position in range(len(columns))])


def _columns(keys: Any) -> list[Any]:
    if is_spark(keys):
        raise InvalidType(
            "keys: a Spark DataFrame has no rows in this process; windowkit.spark partitions DataFrames"
        )
    if isinstance(keys, pa.Array | pa.ChunkedArray):
        return [keys]
    if isinstance(keys, dict):
        # pyarrow would read its names as a column.
        names = list(keys)
        if not names:
            raise InvalidValue("keys: there are no columns; keys are one column or several")
        columns = [_column(f"keys[{name!r}]", keys[name]) for name in names]
        if len({len(column) for column in columns}) > 1:
            lengths = ", ".join(
                f"{name!r}: {len(column)}" for name, column in zip(names, columns, strict=True)
            )
            raise InvalidValue(f"keys: columns have different lengths ({lengths}); a row has a key in each")
        return columns
    if isinstance(keys, set | frozenset):
        raise InvalidType(f"keys: a {type(keys).__name__} has no order of rows; keys are a column or several")
    if isinstance(keys, list | tuple) and any(isinstance(each, pa.Array | pa.ChunkedArray) for each in keys):
        raise InvalidType(
            f"keys: a {type(keys).__name__} of arrays is no column; several columns are a record batch, a "
            "table, or a dict of names and columns"
        )
    table = keys
    if not isinstance(keys, pa.Table | pa.RecordBatch):
        # A pandas DataFrame has columns, a Series has none.
        if not hasattr(keys, "columns") or not hasattr(keys, "__arrow_c_stream__"):
            return [_column("keys", keys)]
        table = pa.table(keys)
    if table.num_columns == 0:
        raise InvalidValue("keys: there are no columns; keys are one column or several")
    return list(table.columns)


def _column(argument: str, values: Any) -> Any:
    """Return a column as an array or chunked array."""
    if isinstance(values, pa.ChunkedArray):
        return values if argument == "keys" else values.combine_chunks()
    if isinstance(values, pa.Array):
        return values
    try:
        if hasattr(values, "__arrow_c_stream__"):
            return _column(argument, pa.chunked_array(values))
        if isinstance(values, str | bytes) or not (
            hasattr(values, "__arrow_c_array__") or hasattr(values, "__array__") or hasattr(values, "__len__")
        ):
            raise InvalidType(
                f"{argument}: a {type(values).__name__} is no column; it is an Arrow array, or what offers "
                "itself as one"
            )
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidType(
            f"{argument}: a {type(values).__name__} is no column that Arrow can hold ({error})"
        ) from None


def _counts(argument: str, values: Any) -> list[int]:
    column = _column(argument, values)
    if not pa.types.is_integer(column.type) and len(column):
        raise InvalidType(f"{argument}: it is {column.type}; counts are integers")
    return [_integer(argument, count, 0, 2**62, "a count") for count in column.to_pylist()]


def _window(window: Tumbling | Length | Rows | None) -> WindowTuple | None:
    """Return a window as the native core takes it: kind, size, offset."""
    if window is None:
        return None
    if isinstance(window, Rows):
        return "rows", rows(window.size).size, 0
    if isinstance(window, Window) and not isinstance(window, Tumbling):
        raise InvalidType(
            f"window: {window} has windows that overlap, or that end key by key; allowed are tumbling windows"
        )
    if not isinstance(window, Tumbling):
        window = tumbling(window)
    _, _, size, _, offset, is_time = window.specification()
    if isinstance(window.size, RowCount):
        return "rows", rows(size).size, 0
    return "nanoseconds" if is_time else "units", size, offset


def _shown(window: WindowTuple) -> Tumbling | Rows:
    """Return the window of which `_window` made this."""
    kind, size, offset = window
    if kind == "rows":
        return Rows(size)
    if kind == "units":
        return tumbling(size, start_time=offset or None)
    return tumbling(f"{size} nanoseconds", start_time=f"{offset} nanoseconds" if offset else None)


def _workers(workers: int) -> int:
    return _integer("workers", workers, 1, MOST_WORKERS, "a number of workers")


def _candidates(candidates: int | None, workers: int) -> int:
    if candidates is None:
        return min(2, workers)
    return _integer("candidates", candidates, 1, MOST_WORKERS, "a number of workers")


def _seed(seed: int) -> int:
    return _integer("seed", seed, 0, 2**64 - 1, "an unsigned 64-bit integer")


def _integer(argument: str, value: Any, least: int, most: int, what: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidType(f"{argument}: {value!r:.60} is a {type(value).__name__}; it is {what}, an int")
    number = operator.index(value)
    if not least <= number <= most:
        raise InvalidValue(f"{argument}: {number} is out of range; allowed is {least} to {most}")
    return number


def _fraction(argument: str, value: Any) -> float:
    if isinstance(value, bool) or not hasattr(value, "__float__") or isinstance(value, str):
        raise InvalidType(f"{argument}: {value!r:.60} is a {type(value).__name__}; it is a number in [0, 1]")
    number = float(value)
    if not 0.0 <= number <= 1.0:
        raise InvalidValue(f"{argument}: {number} is out of range; allowed is 0 to 1")
    return number


def _text(argument: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidType(f"{argument}: {value!r:.60} is a {type(value).__name__}; it is a name, a str")
    return value
