"""Records of kernels.py, found by what they are of, and how their figures are written in tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pages import Record

PEERS = ("Polars", "pandas", "bottleneck", "numbagg")
WIDTHS = {"int32": 4, "float64": 8}


class Records:
    """Measurements, found by what they are of."""

    def __init__(self, facts: Record, records: Sequence[Record]) -> None:
        self.facts, self.all = facts, records

    def of(self, section: str, **wanted: Any) -> list[Record]:
        """Return the records of a section in which all of `wanted` holds."""
        return [
            record
            for record in self.all
            if record["section"] == section and all(record.get(key) == value for key, value in wanted.items())
        ]

    def one(self, section: str, **wanted: Any) -> Record | None:
        """Return the only such record, if there is one."""
        return next(iter(self.of(section, **wanted)), None)

    def values(self, section: str, key: str, **wanted: Any) -> list[Any]:
        """Return what is found under `key`, in the order of measuring, each once."""
        return list(dict.fromkeys(record[key] for record in self.of(section, **wanted)))

    def ratio(self, section: str, peer: str, own: str = "windowkit", **cell: Any) -> float | None:
        """Return how many times as long as `own` a peer takes."""
        ours, theirs = self.one(section, side=own, **cell), self.one(section, side=peer, **cell)
        return theirs["median"] / ours["median"] if ours and theirs else None

    def of_memcpy(self, section: str, copy: str, own: str = "windowkit", **cell: Any) -> float | None:
        """Return the rate of `own` as a share of copying's, both in bytes read and written.

        Answers are not always as wide as values: sums and means of int32 take twice the bytes.
        """
        ours, copied = self.one(section, side=own, **cell), self.one(section, side=copy, **cell)
        if not ours or not copied:
            return None
        read = ours["rows"] * WIDTHS[cell["dtype"]]
        windows = (ours["rows"] - cell["size"]) // cell.get("slide", 1) + 1
        written = windows * (WIDTHS[cell["dtype"]] if cell["function"] in ("min", "max") else 8)
        return (read + written) / (2 * read) * copied["median"] / ours["median"]


def rate(record: Record | None) -> str:
    return figure(record["rows"] / record["median"] / 1e6 if record else None)


def figure(value: float | None) -> str:
    """Return a rate with three digits that mean something."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cells_of(records: Records, section: str) -> list[tuple[str, str, int]]:
    found = (
        (record["function"], record["dtype"], record["size"])
        for record in records.of(section)
        if "function" in record
    )
    return list(dict.fromkeys(found))


def auto_cells(records: Records) -> Iterable[tuple[str, float, str]]:
    """Yield for each cell its name, the time of `auto` over the best, and which that is; of medians."""
    groups: dict[tuple[Any, ...], dict[str, float]] = {}
    for record in records.of("auto"):
        key = tuple(record[name] for name in ("function", "dtype", "size", "slide", "column", "partial"))
        groups.setdefault(key, {})[record["side"]] = record["median"]
    for (function, dtype, size, slide, column, partial), times in groups.items():
        best = min(times, key=times.__getitem__)
        name = f"{function} {dtype}, window {size:,}, slide {slide:,}"
        name += "" if column == "random" else f", {column}"
        name += "" if partial == "none" else f", partial={partial!r}"
        yield name, times["auto"] / times[best], best
