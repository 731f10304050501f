"""Values that are not the language's own, but have the attributes of one, as others may have."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any


def foreign(value: Any, **instead: Any) -> Any:
    """Return an object with the attributes of a dataclass, some of them others."""
    own = {each.name: getattr(value, each.name) for each in fields(value)}
    return SimpleNamespace(**{**own, **instead})


def lacking(value: Any, attribute: str, **besides: Any) -> Any:
    """Return an object with the attributes of a dataclass but for one."""
    own = foreign(value, **besides)
    delattr(own, attribute)
    return own
