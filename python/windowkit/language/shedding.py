"""Load shedding: what a stream operator drops when its state would take too much memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import as_given, integer, one_of

__all__ = ["Shed", "checked_shed", "shed"]

KEPT: Final = ("keys", "rows")
UNITS: Final = {
    "b": 1,
    **{f"{unit}b": 1000 ** (power + 1) for power, unit in enumerate("kmgt")},
    **{f"{unit}ib": 1024 ** (power + 1) for power, unit in enumerate("kmgt")},
}
SIZE: Final = "it is a number of bytes above zero, such as 1_000_000_000, '1 GB' or '512 MiB'"


@dataclass(frozen=True)
class Shed:
    """What an operator drops when its state would take too much memory; made by `windowkit.shed`."""

    bytes: int
    keep: str
    seed: int = 0


def checked_shed(given: Shed | None) -> Shed | None:
    """Return what is given for a limit of memory, if that is what `shed` returns, or None."""
    if given is not None and not isinstance(given, Shed):
        raise InvalidType(f"shed: {as_given(given):.60} is given; it is what windowkit.shed(...) returns")
    return given


def shed(bytes: int | str, keep: str = "keys", *, seed: int = 0) -> Shed:  # noqa: A002
    """Return a limit of the memory of a stream operator, and what is dropped beyond it.

    Whenever its state exceeds the limit, the operator reduces it to a random half, until it takes at most
    three quarters of the limit, and takes in the same share p of what comes from then on: 1/2, 1/4, and so
    on.

    Parameters
    ----------
    bytes : int or str
        How much the state may take, as `Stats.bytes` says: a number of bytes, or a string such as ``"1 GB"``
        (1,000,000,000) or ``"512 MiB"``.
    keep : {"keys", "rows"}
        With ``"keys"``, a share p of the keys, by a hash: these are exact, for every function and every
        window. Others are dropped with all that is held of them. Results have the column ``shed_share``, the
        p of the call that they are from. With ``"rows"``, a share p of the rows, and of the slices, of each
        key: counts, sums and means are estimates, each followed by its standard error, ``<name>_error``.
        Sums and means are then float64. Other functions are refused, and so are windows that rows determine.
    seed : int
        Which keys or rows are kept follows from it: operators with the same seed and share keep the same
        keys.

    Raises
    ------
    InvalidType, InvalidValue
        An argument is not as described above.

    Notes
    -----
    A hash of each row once p is below 1, O(state) per halving. Counts and sums are unbiased (Horvitz and
    Thompson, 1952); a mean is the ratio of two of them. Nothing is dropped without being counted:
    `Stats.rows_shed`, `Stats.keys_shed`, `Stats.slices_shed`, `Stats.shed_share`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import windowkit as wk
    >>> query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.max("v"))
    >>> op = query.operator(shed=wk.shed("100 kB"))
    >>> keys = list(range(10_000))
    >>> op.push(pa.table({"k": keys, "t": [1] * 10_000, "v": keys})).num_rows
    0
    >>> stats, kept = op.stats(), op.close()
    >>> stats.bytes <= 100_000, stats.keys + stats.keys_shed, kept.num_rows == stats.keys
    (True, 10000, True)
    >>> set(kept["shed_share"].to_pylist()) == {stats.shed_share}
    True
    """
    one_of("keep", keep, KEPT)
    return Shed(size(bytes), keep, integer("seed", seed, "it is an int from 0 and below 2^64", 0, 2**64 - 1))


def size(given: int | str) -> int:
    """Return a number of bytes."""
    if isinstance(given, str):
        found = re.fullmatch(r"\s*(\d[\d_]*(?:\.\d+)?)\s*([a-z]+)\s*", given, re.ASCII | re.IGNORECASE)
        if found is None or found[2].lower() not in UNITS:
            raise InvalidValue(f"bytes: {as_given(given)} is not understood; {SIZE}")
        try:
            number = int(Fraction(found[1].replace("_", "")) * UNITS[found[2].lower()])
        except ValueError:
            # Of thousands of digits, which Python does not read.
            number = 2**63
    else:
        number = integer("bytes", given, SIZE)
    if not 0 < number < 2**63:
        raise InvalidValue(f"bytes: {as_given(given)} is out of range; {SIZE}")
    return number
