"""One window of each type, over an integer time column: what is added here is tested wherever any type is.

Windows that need a calendar, and so timestamps, are in `tests/test_local_time.py`.
"""

from __future__ import annotations

import windowkit as wk

__all__ = ["ALONE", "by_rows", "by_time", "together", "windows"]

ALONE = ("session by gap",)
"""Those that a query cannot have beside others."""


class Halves(wk.ContextFree):
    """Two windows a day of ten hours: one of all of it, one of its first half."""

    longest = 10

    def next_edge(self, time: int) -> int:
        return (time // 5 + 1) * 5

    def windows(self, since: int, until: int) -> list[tuple[int, int]]:
        return [
            (start, end)
            for start in range(since // 10 * 10 - 10, until, 10)
            for end in (start + 5, start + 10)
            if since < end <= until
        ]


def by_time() -> dict[str, wk.Window]:
    """Return those for which slices suffice."""
    return {
        "tumbling": wk.tumbling(10),
        "sliding": wk.sliding(10, 5),
        "session": wk.session(5),
        "band": wk.band(0, 10),
        "landmark": wk.landmark(5, start=0),
        "landmark by period": wk.landmark(5, period=20),
        "global": wk.global_window(),
        "custom": wk.custom(Halves()),
    }


def by_rows(mark: str = "m", gap: str = "g") -> dict[str, wk.Window]:
    """Return those that need rows in order, by a column of marks, and one of gaps."""
    return {
        "rows": wk.tumbling(rows=2),
        "sliding rows": wk.sliding("3 rows", "1 row"),
        "growing rows": wk.landmark("2 rows", partial="end"),
        "rows from the start": wk.sliding("5 rows", "2 rows", partial="start"),
        "rows by time": wk.sliding("2 rows", 5),
        "time by rows": wk.sliding(5, "2 rows"),
        "time by arrivals": wk.sliding(5, "2 rows", order="arrival"),
        "punctuation": wk.punctuation(mark),
        "punctuation at start": wk.punctuation(mark, at="start"),
        "between": wk.between(mark, mark),
        "long session": wk.session(5, at_most=6),
        "session by gap": wk.session(gap),
    }


def windows(mark: str = "m", gap: str = "g") -> dict[str, wk.Window]:
    """Return one window of each type, by its name."""
    return by_time() | by_rows(mark, gap)


def together(mark: str = "m") -> list[wk.Window]:
    """Return those that one query may have."""
    return [window for name, window in windows(mark).items() if name not in ALONE]
