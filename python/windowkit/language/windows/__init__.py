"""Window types of the language, one module each.

A window is a plain value: frozen, hashable, picklable, and equal to what `parse` makes of its text form.
"""

from __future__ import annotations

from windowkit.language.windows.band import Band, band
from windowkit.language.windows.base import (
    Assembly,
    Window,
    counted,
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
    "counted",
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
