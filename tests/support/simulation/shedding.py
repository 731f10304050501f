"""Keys that an operator drops for want of memory: which they are, and that all others are exact."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from support.consumer import Held
from support.holding import Definition
from support.plain import key, plain
from support.rows_oracle import assert_alike


class Sample:
    """At which shares keys were kept, and at which not, by what was returned.

    A key is kept at a share, or not, whatever happens: also by operators that go on from a snapshot.
    """

    def __init__(self) -> None:
        # The least share at which a key had results, and the greatest at which it lacked some.
        self.kept: dict[tuple[Any, ...], float] = {}
        self.gone: dict[tuple[Any, ...], float] = {}

    def take(
        self, emitted: pa.Table, share: float, held: Held, definition: Definition, by: Sequence[str]
    ) -> None:
        """Assert that a consumer holds all windows of the keys that are kept, and nothing new of others."""
        assert set(emitted["shed_share"].to_pylist()) <= {share}
        columns = [[key(value) for value in plain(emitted[name])] for name in by]
        said = set(zip(*columns, strict=True))
        for group in said:
            self.kept[group] = min(self.kept.get(group, 1.0), share)
            assert self.gone.get(group, 0.0) < share, f"{group} was dropped"
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

    def lacks(self, group: tuple[Any, ...], share: float) -> None:
        """Note that a key is not kept at a share."""
        assert self.may_lack(group, share), f"{group} was kept at {self.kept[group]}"
        self.gone[group] = share

    def may_lack(self, group: tuple[Any, ...], share: float) -> bool:
        """Whether nothing says that a key is kept at a share."""
        return self.kept.get(group, 2.0) > share


def by_group(windows: Sequence[Any]) -> dict[tuple[Any, ...], list[Any]]:
    """Return windows by their keys."""
    found: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for each in windows:
        found[each[0][1]].append(each)
    return found
