"""The cost of panes: Li's worked examples (2008, §6.2), and a count of what an evaluation does."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk
from windowkit.panes import pane_costs


def test_query_6_2_has_four_panes_of_a_minute() -> None:
    """RANGE 4 minutes, SLIDE 1 minute: each window has four panes, and each pane is in four windows."""
    costs = pane_costs(240, 60)
    assert (costs.pane, costs.per_window, costs.per_slide) == (60, 4, 1)


def test_query_6_3_takes_four_tuples_of_each_group() -> None:
    """With G groups in a pane, a window of the query over panes has 4 * G tuples."""
    assert pane_costs(4, 1, rows=0, groups=7, read=0, emit=0, merge=1).paned == 4 * 7


def test_9_minutes_by_6_have_panes_of_3() -> None:
    """Three panes in a window, two in a slide: 2 * c * G * 2 to expire the old ones and add the new ones."""
    costs = pane_costs(9, 6, rows=0, groups=5, differential=True, read=0, emit=0, merge=3)
    assert (costs.pane, costs.per_window, costs.per_slide) == (3, 3, 2)
    assert costs.paned == 2 * 3 * 5 * 2


def test_all_four_equations() -> None:
    """With numbers that share no factor, each term by hand: T = 60, P = 10, q = 3, G = 7."""
    prices = {"read": 2, "emit": 3, "merge": 5, "insert": 11}
    bounded = pane_costs(30, 9, 60, 7, **prices)
    assert (bounded.per_window, bounded.per_slide) == (10, 3)
    assert bounded.paned == 2 * 60 / 10 + 3 * 7 + 5 * 10 * 7  # Eq. 6.1
    assert bounded.direct == 11 * 60  # Eq. 6.3
    differential = pane_costs(30, 9, 60, 7, differential=True, **prices)
    assert differential.paned == 2 * 60 / 10 + 3 * 7 + 2 * 5 * 7 * 3  # Eq. 6.2
    assert differential.direct == 2 * 11 * 9 * (60 / 30)  # Eq. 6.4


def test_figure_6_15() -> None:
    """At 20 rows a pane and 5 panes a window, panes took about 30 % of the time."""
    costs = pane_costs(5, 1, rows=5 * 20)
    assert 0.2 < costs.paned / costs.direct < 0.35


@pytest.mark.parametrize("differential", [False, True])
def test_panes_do_not_pay_with_many_groups_or_one_pane(differential) -> None:
    """The two situations in which Li expects no gain (after Eq. 6.4)."""
    few, many = (pane_costs(10, 1, 1000, groups, differential=differential) for groups in (1, 100))
    assert few.paned < few.direct
    assert many.paned > many.direct
    alone = pane_costs(10, 10, 1000, differential=False)
    assert alone.paned > alone.direct


@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 4), st.integers(1, 5))
def test_the_costs_are_those_of_an_evaluation(slide, per_window, groups, each) -> None:
    """Count the steps of a late window; `each` rows per unit of time and group, and slide divides size."""
    size = slide * per_window
    rows = [(t, group) for t in range(4 * size) for group in range(groups) for _ in range(each)]
    panes: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for t, group in rows:
        panes[t // slide][group] += 1
    start, end = 2 * size, 3 * size
    # New since the window before: one pane's rows are read, and its groups are emitted.
    new = end // slide - 1
    steps = sum(panes[new].values()) + len(panes[new])
    merged = sum(len(panes[pane]) for pane in range(start // slide, end // slide))
    evicted = len(panes[start // slide - 1])
    in_window = sum(start <= t < end for t, _ in rows)
    moved = sum(end - slide <= t < end for t, _ in rows) + sum(start - slide <= t < start for t, _ in rows)
    bounded = pane_costs(size, slide, in_window, groups)
    assert (bounded.paned, bounded.direct) == (steps + merged, in_window)
    differential = pane_costs(size, slide, in_window, groups, differential=True)
    assert (differential.paned, differential.direct) == (steps + len(panes[new]) + evicted, moved)


def test_arguments_are_checked() -> None:
    cases = [
        (
            (10, 11),
            {},
            wk.InvalidValue,
            "slide: 11 is out of range; a slide is an int of at least 1 and at most",
        ),
        ((0, 1), {}, wk.InvalidValue, "size: 0 is out of range"),
        ((1.5, 1), {}, wk.InvalidType, "size: 1.5 is a float"),
        ((2, 1, -1), {}, wk.InvalidValue, "rows: -1 is out of range; it is a number of at least 0"),
        ((2, 1), {"merge": "1"}, wk.InvalidType, "merge: '1' is a str"),
        ((2, 1), {"read": float("inf")}, wk.InvalidValue, "read: inf is out of range"),
    ]
    for given_, named, error, text in cases:
        with pytest.raises(error, match=text):
            pane_costs(*given_, **named)


def explained(windows, aggs) -> list[str]:
    query = wk.query(by="k", time="ts", windows=windows, aggs=aggs)
    lines = query.explain().splitlines()
    first = next((at for at, line in enumerate(lines) if line.startswith("panes")), None)
    return [] if first is None else lines[first : lines.index("windows from slices")]


def least(size, slide, differential) -> int:
    """Return the least number of rows of a key with which panes pay, by trying."""
    costs = (pane_costs(size, slide, rows, differential=differential) for rows in range(10_000))
    return next(rows for rows, each in enumerate(costs) if each.paned < each.direct)


@pytest.mark.parametrize("differential", [False, True])
@pytest.mark.parametrize(("size", "slide"), [(10, 1), (9, 6), (4, 1), (7, 5), (600, 1)])
def test_explain_says_from_which_number_of_rows_panes_pay(size, slide, differential) -> None:
    aggs = [wk.count()] if differential else [wk.count(), wk.max("v")]
    heading, line = explained(wk.sliding(f"{size} minutes", f"{slide} minutes"), aggs)
    assert heading == f"panes, to compare (Li 2008, Eq. {'6.2, 6.4' if differential else '6.1, 6.3'})"
    assert line.endswith(f"; they pay from {least(size, slide, differential)} rows of a key per window on")


def test_explain_says_what_panes_and_slices_there_are() -> None:
    (_, *lines) = explained([wk.sliding(9, 6), wk.tumbling(5), wk.sliding(20, 5).alias("x")], [wk.max("v")])
    assert [line.rpartition("; they")[0] for line in lines] == [
        "  sliding(9, 6): 3 long, 3 per window; 2 panes per slide, or 2 slices",
        "  sliding(20, 5) as x: 5 long, 4 per window; 1 pane per slide, or 1 slice",
    ]


@pytest.mark.parametrize(
    "windows",
    [
        wk.tumbling("1 hour"),
        wk.sliding("1 hour", "1 hour"),
        wk.session("1 hour"),
        wk.sliding("10 rows", "5 rows"),
        [wk.sliding("1 hour", "1 minute"), wk.tumbling(rows=10)],
    ],
    ids=str,
)
def test_explain_says_nothing_of_panes_where_there_are_none(windows) -> None:
    assert explained(windows, [wk.max("v")]) == []


def test_costs_are_exact() -> None:
    assert pane_costs(3, 1, rows=10).paned == Fraction(10, 3) + 1 + 3
