"""What an operator drops for want of memory: of keys, which they are, and that all others are exact."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from support.consumer import Held
from support.holding import Definition
from support.plain import key, plain
from support.rows_oracle import assert_alike

Group = tuple[Any, ...]
"""A key, as definitions have it."""


class Shedding(ABC):
    """What is known of an operator that drops some of its rows.

    When it measures its state depends on what came since a restart, and so may the share that it keeps.
    """

    @abstractmethod
    def hear(self, emitted: pa.Table, share: float, by: Sequence[str]) -> set[Group]:
        """Take note of what a call returned at a share; return the keys of which it says something."""

    @abstractmethod
    def check(self, held: Held, share: float, definition: Definition, said: Collection[Group] = ()) -> None:
        """Assert that a consumer holds what it must after a call at a share, which said something of keys."""

    @abstractmethod
    def may_lack(self, group: Group, share: float) -> bool:
        """Whether rows of a key may be dropped at a share."""

    @abstractmethod
    def is_repeatable(self, emitted: pa.Table, repeated: pa.Table) -> bool:
        """Whether a call that was made again was made at the same share."""


class Keys(Shedding):
    """At which shares keys were kept, and at which not, by what was returned.

    A key is kept at a share, or not, whatever happens: also by operators that go on from a snapshot.
    """

    def __init__(self) -> None:
        # The least share at which a key had results, and the greatest at which it lacked some.
        self.kept: dict[Group, float] = {}
        self.gone: dict[Group, float] = {}

    def hear(self, emitted: pa.Table, share: float, by: Sequence[str]) -> set[Group]:
        assert shares_of(emitted) <= {share}
        columns = [[key(value) for value in plain(emitted[name])] for name in by]
        said = set(zip(*columns, strict=True))
        for group in said:
            self.kept[group] = min(self.kept.get(group, 1.0), share)
            assert self.gone.get(group, 0.0) < share, f"{group} was dropped"
        return said

    def check(self, held: Held, share: float, definition: Definition, said: Collection[Group] = ()) -> None:
        """Assert that these are all windows of the keys that are kept, and nothing new of others."""
        expected, growing = definition.expected()
        wanted, got = by_group(definition.valued(expected)), by_group(definition.of(held, growing))
        for group in wanted.keys() | got.keys():
            if self.gone.get(group, 0.0) >= share:
                continue
            try:
                assert_alike(wanted[group], got[group])
            except AssertionError:
                if group in said or share == 1.0:
                    raise
                self.lacks(group, share)

    def lacks(self, group: Group, share: float) -> None:
        """Note that a key is not kept at a share."""
        assert self.may_lack(group, share), f"{group} was kept at {self.kept[group]}"
        self.gone[group] = share

    def may_lack(self, group: Group, share: float) -> bool:
        """Whether nothing says that a key is kept at a share."""
        return self.kept.get(group, 2.0) > share

    def is_repeatable(self, emitted: pa.Table, repeated: pa.Table) -> bool:
        return shares_of(emitted) == shares_of(repeated)


class Rows(Shedding):
    """Results that are estimates from a sample of the rows."""

    def __init__(self) -> None:
        self.least = 1.0

    def hear(self, emitted: pa.Table, share: float, by: Sequence[str]) -> set[Group]:
        self.least = min(share, self.least)
        errors = [name for name in emitted.column_names if name.endswith("_error") and share == 1.0]
        assert not any(value for name in errors for value in emitted[name].to_pylist())
        return set()

    def check(self, held: Held, share: float, definition: Definition, said: Collection[Group] = ()) -> None:
        """Assert that results are exact before anything is dropped, and that all of them are windows."""
        expected, growing = definition.expected()
        if share == 1.0:
            wanted, got = definition.valued(expected), definition.of(held, growing)
            assert_alike(as_floats(wanted), as_floats(got))
            return
        windows = {(each.at, each.start, each.end) for each in expected}
        of_held = {(at, start, end) for at, start, end, *_ in definition.of(held, {})}
        assert of_held <= windows, f"{of_held - windows} are no windows"

    def may_lack(self, group: Group, share: float) -> bool:
        return share < 1.0

    def is_repeatable(self, emitted: pa.Table, repeated: pa.Table) -> bool:
        return self.least == 1.0


def shares_of(emitted: pa.Table) -> set[float]:
    """Return the shares of results, of which a call that only changes queries has none."""
    return {*emitted["shed_share"].to_pylist()} if "shed_share" in emitted.column_names else set()


def as_floats(windows: Sequence[Any]) -> list[Any]:
    """Return windows whose numbers are floats, as estimates are."""
    return [
        (*window, [float(value) if isinstance(value, int) else value for value in values])
        for *window, values in windows
    ]


def by_group(windows: Sequence[Any]) -> dict[Group, list[Any]]:
    """Return windows by their keys."""
    found: dict[Group, list[Any]] = defaultdict(list)
    for each in windows:
        found[each[0][1]].append(each)
    return found
