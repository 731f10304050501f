"""The techniques that slicing is compared with, by what they store (Traub et al. 2019, §3 and Table 1)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["STORED", "TECHNIQUES"]

STORED: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "tuple_buffer": ("§3.1", "rows in order of time; a window is computed from its rows when it ends"),
        "aggregate_tree": ("§3.2", "a partial aggregate per row, and a binary tree above those of a key"),
        "aggregate_buckets": (
            "§3.3",
            "a partial aggregate per window, into which its rows are folded",
        ),
        "tuple_buckets": ("§3.3", "a list of rows per window; a window is computed from it when it ends"),
        "pairs": ("§3.4", "slices, cut where windows start and end, of rows in order"),
        "cutty": ("§3.4", "slices, cut where windows start, and a tree above them, of rows in order"),
    }
)
"""For each technique the section that has it, and what it stores."""

TECHNIQUES: Final = ("slicing", *STORED)
