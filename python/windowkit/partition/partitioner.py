"""The partitioner: rows to workers, batch after batch."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from windowkit import _native
from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import snapshot_bytes, text
from windowkit.language.durations import Length
from windowkit.language.windows import Tumbling
from windowkit.partition.arguments import (
    Rows,
    checked_candidates,
    checked_fraction,
    checked_seed,
    checked_workers,
    shown_window,
    table_of,
    window_length,
)


class Partitioner:
    """Assigns rows to workers, batch after batch.

    Decisions depend on the parameters and on the rows since the start, not on their division into batches,
    and are the same on every platform. A Partitioner can be pickled, and continues where it was.

    Parameters
    ----------
    workers : int
        1 to 65,536.
    method : str, default "waterfill"
        In brackets the paper's names, which are accepted too:

        - ``waterfill``: by the key's hash, but rows of the few heavy keys fill up the workers below the
          mean. Both costs are low on any skew; memory is constant; the notes say more.
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
        When loads and cardinalities are reset: by event time, as `windowkit.tumbling` takes it, or with
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
    takes are allowed. Levelling takes about one for each heavy key, and ``workers - 1`` at least; they are
    allowed from ``8 * workers * max(workers, heavy keys)`` rows on (8,192 rows for 32 workers and as many
    heavy keys, 65,536 for 256 of them), or if one key alone is what needs levelling. With fewer rows, and
    keys of about a fair share each, ``partial-key`` or ``cam`` level better; `choose` says so. A key is heavy
    above one sixteenth of a worker's fair share of recent rows.

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
        count = checked_workers(workers)
        self._native = _native.Partitioner(
            count,
            text("method", method, "it is a name, a str"),
            checked_candidates(candidates, count),
            text("cardinality", cardinality, "it is a name, a str"),
            checked_fraction("bias", bias),
            window_length(window),
            checked_seed(seed),
        )

    @property
    def workers(self) -> int:
        """Number of workers."""
        return self._native.parameters.workers

    @property
    def method(self) -> str:
        """The method, by its long name."""
        return self._native.parameters.method

    def assign(self, keys: Any, times: Any = None, *, validate: bool = False) -> pa.Int32Array:
        """Return the worker of each row, 0 to ``workers - 1``.

        All or nothing: after an error the state is as before.

        Parameters
        ----------
        keys : Arrow data
            The rows' keys; see `windowkit.partition`.
        times : Arrow array, optional
            The rows' event times if the window is one of event time: a timestamp, date or duration, or an
            integer for a window of an integer length. Rows of one window may come in any order, but windows
            do not go back.
        validate : bool, default False
            Look at every value before, and refuse malformed data: strings that are not UTF-8, wrong counts of
            nulls. For keys from a file or another process; lengths, offsets, views and codes of dictionaries
            are always checked.

        Returns
        -------
        pyarrow.Int32Array
            One worker a row; no nulls.

        Raises
        ------
        InvalidType
            Keys cannot be hashed, or are of other columns or types than before; times cannot carry windows.
        InvalidValue
            Times are missing, null, not as many as keys, or of a window that has ended; or the data is
            malformed.

        Notes
        -----
        If a signal handler raises meanwhile (Ctrl-C), the call has either taken effect or left the state as
        it was: `calls` tells which, and `last` returns the workers. A long call polls for signals every
        16,384 rows. What it takes to go back is a copy of the state now and then, and
        the hashes of the rows since: as much memory as `memory` tells, and up to 32 MiB.

        Examples
        --------
        >>> import pyarrow as pa
        >>> partitioner = Partitioner(2, "shuffle", window=10)
        >>> partitioner.assign(pa.array(["a"] * 5), pa.array([1, 2, 11, 13, 12])).to_pylist()
        [1, 0, 1, 0, 1]
        >>> partitioner.loads()
        [1, 2]
        """
        table = table_of(keys, times, validate=validate)
        return pa.array(self._native.assign(table, times is not None))

    @property
    def calls(self) -> int:
        """The number of calls of `assign` and `reset` that have taken effect."""
        return self._native.calls

    def last(self) -> pa.Int32Array:
        """Return the workers that the last `assign` returned once more.

        This is for a signal handler that raises (Ctrl-C) after the rows were assigned and before you had the
        result. The partitioner keeps it until the next one.

        Raises
        ------
        InvalidValue
            There was none yet.

        Examples
        --------
        >>> import pyarrow as pa
        >>> partitioner = Partitioner(2, "shuffle")
        >>> before = partitioner.calls
        >>> try:
        ...     workers = partitioner.assign(pa.array(["a", "b", "c"]))
        ... except KeyboardInterrupt:
        ...     if partitioner.calls == before:
        ...         raise
        ...     workers = partitioner.last()
        >>> workers == partitioner.last()
        True
        """
        workers = self._native.last()
        if workers is None:
            raise InvalidValue("last: this partitioner has not assigned any rows yet")
        return pa.array(workers)

    def reset(self) -> None:
        """Forget all rows, as if newly created.

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

        With ``cardinality="hll"``, ``am`` and ``cam`` count the keys that their registers did not consider
        known: about 40 % too few once keys outnumber registers. The other methods and kinds count correctly.

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
        """Describe what the partitioner does and has done so far.

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
        """Return a partitioner that continues from a snapshot.

        Parameters
        ----------
        snapshot : bytes
            What `snapshot` returned.
        **parameters
            Parameters of `Partitioner` that the snapshot is required to have.

        Raises
        ------
        InvalidType, InvalidValue
            The bytes are not a snapshot, are damaged, or are of another version or of other parameters.

        Examples
        --------
        >>> Partitioner.restore(Partitioner(4).snapshot(), workers=8)
        Traceback (most recent call last):
        ...
        windowkit.errors.InvalidValue: snapshot: it was taken with workers=4; but workers=8 is given
        """
        restored = cls.__new__(cls)
        restored._native = _native.Partitioner.restore(snapshot_bytes(snapshot))
        if parameters:
            restored._check(parameters)
        return restored

    def _parameters(self) -> tuple[Any, ...]:
        """Return the parameters, with the window as it is given."""
        own = self._native.parameters
        window = None if own.window is None else shown_window(own.window)
        return own.workers, own.method, own.candidates, own.cardinality, own.bias, window, own.seed

    def _check(self, expected: dict[str, Any]) -> None:
        own = dict(zip(PARAMETERS, self._parameters(), strict=True))
        unknown = sorted(set(expected) - set(own))
        if unknown:
            raise InvalidType(
                f"parameters: {unknown[0]!r} is not a parameter of a Partitioner; "
                f"allowed are {', '.join(own)}"
            )
        wanted = Partitioner(**{"workers": own["workers"], "method": own["method"], **expected})
        for name, other in zip(PARAMETERS, wanted._parameters(), strict=True):
            if name in expected and other != own[name]:
                raise InvalidValue(
                    f"snapshot: it was taken with {name}={own[name]!r}; but {name}={other!r} is given"
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
    keys: Any, workers: int, *, candidates: int | None = None, seed: int = 0, validate: bool = False
) -> pa.FixedSizeListArray:
    """Return the candidate workers of each row's key: what ``Partitioner`` chooses from.

    The first of them is where the method ``hash`` sends the key. Candidate j of a key with the 64-bit hash
    h is ``(mix(h, j + 1) * workers) >> 64`` for a fixed function ``mix``, so that the candidates of a key
    are independent and may coincide.

    Parameters
    ----------
    keys : Arrow data
        The rows' keys; see `windowkit.partition`.
    workers, candidates, seed : int
        As in `Partitioner`.
    validate : bool, default False
        As in `Partitioner.assign`.

    Returns
    -------
    pyarrow.FixedSizeListArray
        Lists of `candidates` int32, one a row.

    Raises
    ------
    InvalidType, InvalidValue
        A parameter is outside what is allowed, or keys cannot be hashed or are malformed.

    Examples
    --------
    >>> import pyarrow as pa
    >>> places = candidates(pa.array(["a", "b", "a"]), 8, candidates=3)
    >>> places[0] == places[2], len(places[1])
    (True, 3)
    """
    count = checked_workers(workers)
    choices = checked_candidates(candidates, count)
    if choices > count:
        raise InvalidValue(f"candidates: {choices} is out of range; allowed is 1 to {count}, the workers")
    flat = pa.array(
        _native.partition_candidates(table_of(keys, validate=validate), count, choices, checked_seed(seed))
    )
    return pa.FixedSizeListArray.from_arrays(flat, choices)
