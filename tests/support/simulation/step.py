"""What happens to an operator."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from support.streams import KEY_POOLS, KEYS

STEPS = 40
"""Of a run, at most."""
KEYS_OF = {str(kind): values for (kind, _), values in zip(KEYS, KEY_POOLS, strict=True)}


class Step(NamedTuple):
    """A call that changes an operator, with its argument; or a restart, a kill or a check."""

    kind: str
    argument: Any = None

    def __str__(self) -> str:
        if not isinstance(self.argument, pa.Table):
            return self.kind if self.argument is None else f"{self.kind} {self.argument}"
        return "\n  ".join([self.kind, *(str(tuple(row.values())) for row in self.argument.to_pylist())])
