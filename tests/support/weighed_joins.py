"""What joins of two streams whose rows may retract others have to return, by the definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import windowkit as wk
from support.join_streams import LEFT, Model, check, found, key_of, watermarks
from support.joins import Found, Row

SIDES = ("left", "right")
Sides = tuple[list[Row], list[Row]]


class Act(NamedTuple):
    """What happens."""

    name: str
    side: int
    argument: int


@st.composite
def acts(draw: st.DrawFn) -> list[Act]:
    """Draw calls of an operator, most of which add rows or retract some."""
    names = ["push", "push", "push", "again", "retract", "retract", "retract", "both", "absent"]
    names += ["advance", "key", "restore"]
    each = st.builds(Act, st.sampled_from(names), st.integers(0, 1), st.integers(0, 6))
    return draw(st.lists(each, max_size=12)) + draw(st.lists(each, max_size=12))


class Consumer:
    """What is left of results whose weights are added up."""

    def __init__(self) -> None:
        self.rows = Counter[Found]()

    def take(self, result: pa.Table) -> Counter[Found]:
        """Add the weights of results, of which no prefix may have fewer than no row; return all that came."""
        new = Counter[Found]()
        for at, weight in enumerate(result["weight"].to_pylist()):
            ((row, _),) = found(result.slice(at, 1)).items()
            assert weight in (1, -1)
            self.rows[row] += weight
            assert self.rows[row] >= 0, row
            new[row] += 1
        self.rows = +self.rows
        return new


def weighed(table: pa.Table, numbers: Iterable[int], weights: Iterable[int], has_weight: bool) -> pa.Table:
    """Return rows of a table with weights, or those of the schema for none."""
    rows = pa.concat_tables([table.slice(0, 0), *(table.slice(number, 1) for number in numbers)])
    return rows.append_column("w", pa.array(weights, pa.int8())) if has_weight else rows


def run(
    join: wk.Join,
    tables: tuple[pa.Table, pa.Table],
    rows: Sides,
    model: Model,
    made: list[Act],
    has_weight: tuple[bool, bool],
    **options: Any,
) -> None:
    """Make calls of an operator; after each, compare what a consumer holds with the model."""
    join = replace(
        join, **{f"{side}_weight": "w" for side, own in zip(SIDES, has_weight, strict=True) if own}
    )
    empty = [weighed(table, [], [], own) for table, own in zip(tables, has_weight, strict=True)]
    op = join.operator(*empty, **options)
    assert op.schema.names[-1] == "weight"
    times = sorted({time for side in rows for _, time in side if time is not None}) or [0]
    done, consumer, marks = [0, 0], Consumer(), []
    half = len(made) // 2
    rest = [Act("push", side, 10**6) for side in (0, 1)]
    for name, side, argument in [*made[:half], *rest, *made[half:], Act("close", 0, 0)]:
        table, of_side = tables[side], rows[side]
        push = op.push_left if side == LEFT else op.push_right
        advance = op.advance_left if side == LEFT else op.advance_right
        present = sorted({entry.number for entry in model.sides[side]})
        time = times[min(argument, 6) * (len(times) - 1) // 6]
        if name == "close":
            result, model.is_closed = op.close(), True
        elif name == "restore":
            op = wk.JoinOperator.restore(op.snapshot(), join)
            continue
        elif name in ("push", "again"):
            to = min(done[side] + argument, len(table)) if name == "push" else done[side]
            numbers = list(range(done[side], to)) if name == "push" else present[:argument]
            done[side] = to
            result = push(weighed(table, numbers, [1] * len(numbers), has_weight[side]))
            model.push(side, [(number, of_side[number]) for number in numbers])
        elif name in ("retract", "both", "absent") and not has_weight[side]:
            continue
        elif name == "retract":
            # Late ones may be retracted, too, and stay late.
            first = argument % max(1, len(present))
            numbers = [*present[first : first + 3], *sorted(set(model.late[side]))[argument:][:1]]
            counts = Counter(entry.number for entry in model.sides[side] if entry.number in numbers)
            numbers = [number for number in numbers if counts[number] or number in model.late[side]]
            if any(number in present and number in model.late[side] for number in numbers):
                numbers = [number for number in numbers if number not in model.late[side]]
            result = push(weighed(table, numbers, [-1] * len(numbers), True))
            model.retract(side, [(number, of_side[number]) for number in numbers])
        elif name == "both":
            # In one call, in whichever order: one row for another, and one for nothing.
            to = min(done[side] + argument, len(table))
            numbers = list(range(done[side], to))
            done[side] = to
            signs = [1, 1, -1]
            given = [(number, sign) for sign in signs for number in (numbers if sign > 0 else numbers[::-1])]
            given = given[argument:] + given[:argument] if argument < len(given) else given
            result = push(
                weighed(table, *map(list, zip(*given, strict=True)), True) if given else empty[side]
            )
            late_before = len(model.late[side])
            model.push(side, [(number, of_side[number]) for number in numbers])
            late = set(model.late[side][late_before:])
            del model.late[side][late_before:]
            model.late[side].extend(number for number, _ in given if number in late)
        elif name == "absent":
            numbers = [number for number in range(len(table)) if number not in present]
            for number in numbers[argument : argument + 1]:
                refuse(op, model, side, (number, of_side[number]), weighed(table, [number], [-1], True))
            continue
        elif name == "key":
            if not of_side:
                continue
            row = argument * (len(of_side) - 1) // 6
            key = of_side[row][0]
            reached = model.reach(side, key)
            if not key or None in key or (reached is not None and reached > time):
                continue
            result = advance(time, key=key_of(table, len(key), row))
            model.ahead[side].append((key, time))
        else:
            reached = model.reached[side]
            if reached is not None and reached > time:
                continue
            result = advance(time)
            model.reached[side] = time
        assert result.schema == op.schema
        new = consumer.take(result)
        for before in marks:
            check(new, before, rows)
        assert consumer.rows == model.results(), (name, side, argument)
        stats = op.stats()
        assert (stats.left_kept, stats.right_kept) == (model.kept(0), model.kept(1))
        marks.append(watermarks(op))
    assert op.take_late_left()["left"].to_pylist() == model.late[0]
    assert op.take_late_right()["right"].to_pylist() == model.late[1]


def refuse(op: wk.JoinOperator, model: Model, side: int, row: tuple[int, Row], rows: pa.Table) -> None:
    """Retract a row that is not there, where that can be seen: rows like it are held, and it is not late."""
    _, (key, time) = row
    reached = model.reach(side, key)
    is_late = time is not None and reached is not None and time < reached
    probe = replace(model, sides=([], []), late=([], []))
    probe.push(side, [row])
    if is_late or any(probe.is_certain(side, entry) for entry in probe.sides[side]):
        return
    before = op.stats()
    push = op.push_left if side == LEFT else op.push_right
    with pytest.raises(wk.InvalidValue, match=rf"{SIDES[side]}_weight: row 0 has -1, but there is no row of"):
        push(rows)
    assert replace(op.stats(), bytes=0, keys=0) == replace(before, bytes=0, keys=0)
