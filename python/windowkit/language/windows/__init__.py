"""Window types of the language, one module each.

A window is a plain value: frozen, hashable, picklable, and equal to what `parse` makes of its text form.

A new type is a dataclass and a function in a module of its own, with a row in `FORMS` of `text` (and in
`NAMING`, if its arguments are names of columns). What others ask about a type are properties of `Window`,
with defaults in `base`, such as `column_types` if it reads columns that are not numbers,
`known_before_rows` and `rows_may_move` (which emission policies it allows), `overlaps`,
`ends_with_stream`, `is_endless` and `counts_arrivals`: a type overrides those that differ. `panes` in
`windowkit.local.explain` compares slices with panes for `Sliding` alone; it may do so for any type whose
windows overlap at fixed distances in time.
"""

from __future__ import annotations

from windowkit.language.windows.band import Band, band
from windowkit.language.windows.base import (
    Assembly,
    Window,
    require_no_rows,
    shown,
    time_type,
    units,
)
from windowkit.language.windows.between import Between, between
from windowkit.language.windows.everything import Global, global_window
from windowkit.language.windows.grammar import Call, bare, quoted, read_call, split, unquoted
from windowkit.language.windows.landmark import Landmark, landmark
from windowkit.language.windows.local import WEEKDAYS, ZoneLike, days_of_utc
from windowkit.language.windows.punctuation import Punctuation, punctuation
from windowkit.language.windows.session import Session, session
from windowkit.language.windows.sliding import Sliding, sliding
from windowkit.language.windows.text import WINDOW_FORMS, parse
from windowkit.language.windows.tumbling import Tumbling, tumbling
from windowkit.language.windows.user import (
    Add,
    ContextAware,
    ContextFree,
    Custom,
    Definition,
    Remove,
    Shift,
    custom,
)

__all__ = [
    "WEEKDAYS",
    "WINDOW_FORMS",
    "Add",
    "Assembly",
    "Band",
    "Between",
    "Call",
    "ContextAware",
    "ContextFree",
    "Custom",
    "Definition",
    "Global",
    "Landmark",
    "Punctuation",
    "Remove",
    "Session",
    "Shift",
    "Sliding",
    "Tumbling",
    "Window",
    "ZoneLike",
    "band",
    "bare",
    "between",
    "custom",
    "days_of_utc",
    "global_window",
    "landmark",
    "parse",
    "punctuation",
    "quoted",
    "read_call",
    "require_no_rows",
    "session",
    "shown",
    "sliding",
    "split",
    "time_type",
    "tumbling",
    "units",
    "unquoted",
]
