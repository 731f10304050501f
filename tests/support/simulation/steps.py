"""What happens to an operator of queries, drawn step by step."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pyarrow as pa

import windowkit as wk
from support.holding import TWIN, Definition
from support.plain import column, key, plain
from support.simulation.forms import WEIGHT
from support.simulation.setting import Setting
from support.simulation.step import KEYS_OF, STEPS, Step
from support.stream_oracle import NEVER, by_rows


class Steps:
    """What happens next, whatever became of what happened before."""

    def __init__(self, random: Random, setting: Setting) -> None:
        self.random, self.setting = random, setting
        self.others = {f"other{at}": query for at, query in enumerate(setting.others)}
        self.number = random.randint(5, STEPS)
        self.pace, self.rows = setting.place.pace, 0
        self.now = setting.place.time(random.randint(-30, 30))
        # In order, the least time of rows of keys that are ahead.
        self.least: dict[tuple[Any, ...], int] = {}
        # Rows of weight 1 that none retracts so far.
        self.retractable: list[dict[str, Any]] = []

    def next(self, definition: Definition) -> Step:
        """Draw what happens next to an operator that is defined so."""
        kinds = ["push"] * 12 + ["advance"] * 4 + ["take_late", "snapshot", "snapshot", "restart", "kill"]
        kinds += ["check", "refused"]
        if self.setting.query.by and not self.setting.processing:
            kinds += ["advance_key"] * 3
            # What retracts a row, or is dropped, would be of a key that is not known any more.
            kinds += ["end_key"] * (2 if not self.setting.is_weighted and self.setting.shed is None else 0)
        if self.others.keys() - definition.queries.keys():
            kinds += ["add", "add"]
        if len(definition.queries) > 1:
            kinds.append("remove")
        if any(each.query.emit is not None for each in definition.queries.values()):
            kinds += ["fire", "fire"]
        windows = [window for each in definition.queries.values() for window in each.query.windows]
        if any(isinstance(window, wk.Punctuation) for window in windows):
            kinds += ["punctuate"] * 3
        kind = self.random.choice(kinds)
        match kind:
            case "push":
                sliced = self.setting.is_sliced and self.random.random() < 0.6
                return Step("push_slices" if sliced else kind, self.batch())
            case "advance":
                return Step(kind, self.watermark(definition))
            case "advance_key":
                return self.ahead(definition)
            case "end_key":
                return self.end_of_key(definition)
            case "add":
                return Step(kind, self.random.choice(sorted(self.others.keys() - definition.queries.keys())))
            case "remove":
                return Step(kind, self.random.choice(sorted(definition.queries)))
            case "punctuate":
                return self.punctuation(definition)
            case "fire":
                return Step(kind, self.key(definition))
        return Step(kind)

    def batch(self) -> pa.Table:
        """Return rows in two chunks, some of them late and some without a time."""
        random = self.random
        columns: dict[str, list[Any]] = {name: [] for name in self.setting.schema.names}
        # By a clock, rows of a call have one time; otherwise each has its own.
        self.now += random.choice([0, 1, 2, 5, 12, 40]) * self.pace if self.setting.processing else 0
        for _ in range(random.choice([0, 1, 2, 3, 5, 8, 8, 13, 40])):
            self.now += 0 if self.setting.processing else random.choice([0, 0, 1, 1, 2, 5, 12]) * self.pace
            gone = self.taken_back()
            row = self.row() if gone is None else gone
            for name, values in columns.items():
                values.append(row[name])
        arrays = {
            name: column(values, self.setting.schema.field(name).type) for name, values in columns.items()
        }
        batch = pa.table(arrays, schema=self.setting.schema)
        cut = random.randint(0, batch.num_rows)
        return pa.concat_tables([batch.slice(0, cut), batch.slice(cut)])

    def row(self) -> dict[str, Any]:
        """Return a row that is new."""
        random, setting, row = self.random, self.setting, dict[str, Any]()
        back = 0 if setting.order == "in-order" else random.choice([0, 0, 0, 1, 4, 11, 30]) * self.pace
        for name in setting.schema.names:
            if name == setting.at:
                known = setting.processing or random.random() >= 0.05
                row[name] = self.now - back if known else None
            elif name in ("id", TWIN):
                row[name] = self.rows
            elif name == WEIGHT:
                row[name] = 1
            elif name.startswith("k"):
                kind = setting.schema.field(name).type
                row[name] = random.choice(KEYS_OF[str(kind)])
            else:
                pool = setting.pools.get(name, [True, False, False])
                row[name] = None if name != "n" and random.random() < 0.1 else random.choice(pool)
        if self.least and self.is_behind(row):
            row[setting.at] = None
        self.rows += 1
        if setting.is_weighted:
            self.retractable = [*self.retractable[-20:], row]
        return row

    def taken_back(self) -> dict[str, Any] | None:
        """Return the row that retracts an earlier one, now and then, if rows have weights."""
        if not self.retractable or self.random.random() < 0.7:
            return None
        at = self.random.randrange(len(self.retractable))
        row = self.retractable[at]
        time = row[self.setting.at]
        if self.setting.order == "in-order" and time is not None and (time < self.now or self.is_behind(row)):
            return None
        del self.retractable[at]
        self.rows += 1
        return row | {WEIGHT: -1, "id": self.rows - 1}

    def watermark(self, definition: Definition) -> int:
        """Return where to advance to: where rows are or, out of order, somewhere around the latest."""
        reached = [t for t in (definition.watermark, definition.latest) if t is not None]
        if self.setting.order == "in-order":
            self.now = max([self.now, *reached]) + self.random.choice([0, 0, 1, 30]) * self.pace
            return self.now
        least = self.setting.place.time(-40)
        target = max(reached, default=least) + self.random.randint(-15, 15) * self.pace
        return target if definition.watermark is None else max(target, definition.watermark)

    def ahead(self, definition: Definition) -> Step:
        """Return where a key is complete to: one that rows have, or another."""
        of = self.key(definition) or {
            name: self.random.choice(KEYS_OF[str(self.setting.schema.field(name).type)])
            for name in self.setting.query.by
        }
        group = self.group(of)
        reached = definition.reached(group)
        known = [t for t in (reached, definition.latest) if t is not None]
        at = max(known, default=self.now) + self.random.randint(-10, 20) * self.pace
        at = at if reached is None else max(at, reached)
        if self.setting.order == "in-order":
            # Rows are in order, of this key from here on.
            self.least[group] = max(at, self.least.get(group, at))
        return Step("advance_key", (at, of))

    def end_of_key(self, definition: Definition) -> Step:
        """Return a key that ends; in order, and where windows have numbers, it has no rows afterwards."""
        of = self.key(definition)
        if of is None:
            return Step("check")
        queries = [each.query for each in definition.queries.values()]
        queries += [query for query, _ in self.others.values()]
        begins_anew = self.setting.order == "out-of-order" and all(
            query.emit is None and not any(by_rows(window) for window in query.windows) for query in queries
        )
        if not begins_anew:
            self.least[self.group(of)] = NEVER
        return Step("end_key", of)

    def punctuation(self, definition: Definition) -> Step:
        known = (self.now, definition.watermark, definition.latest)
        reached = max(t for t in known if t is not None)
        at = reached + self.random.randint(-15, 5) * self.pace * (self.setting.order == "out-of-order")
        of = self.key(definition)
        if not self.accepts_punctuation(at, of, definition):
            return Step("check")
        self.now = max(self.now, at) if self.setting.order == "in-order" else self.now
        return Step("punctuate", (at, of))

    def key(self, definition: Definition) -> dict[str, Any] | None:
        """Return a key that rows have, or None for all keys."""
        table, by = definition.table, self.setting.query.by
        if not by or not table.num_rows or self.random.random() < 0.5:
            return None
        row = self.random.randrange(table.num_rows)
        return {name: table[name][row].as_py() for name in by}

    def group(self, of: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return a key as the definition has it."""
        return tuple(
            key(plain(column([of[name]], self.setting.schema.field(name).type))[0])
            for name in self.setting.query.by
        )

    def is_behind(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is before the time up to which its key is complete."""
        at = row[self.setting.at]
        return at is not None and at < self.least.get(self.group(row), at)

    def accepts_punctuation(self, at: int, of: Mapping[str, Any] | None, definition: Definition) -> bool:
        """Whether rows of that time may still come, to all queries."""
        if of is None and any(at < mark for mark in definition.ahead.values()):
            return False
        watermark = definition.watermark if of is None else definition.reached(self.group(of))
        if self.setting.order == "in-order":
            return watermark is None or at >= watermark
        return all(
            (since is None or at > since) and (watermark is None or at >= watermark - lateness)
            for _, since, lateness in definition.queries.values()
        )
