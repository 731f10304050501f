"""What tells queries, joins and others apart, where they last: in snapshots, checkpoints and packed chunks.

It is the form of ``to_dict``, as it is written: what is equal (``==``) has one form, and what says the same
in other words, as ``a | b`` and ``b | a`` do, has two. Users' own functions and windows are known by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

__all__ = ["fingerprint", "identity"]


def identity(form: Mapping[str, Any]) -> str:
    """Return the text of a form, without the version that it is read by.

    Examples
    --------
    >>> identity({"version": 1, "by": ["id"], "within": "10 minutes"})
    '{"by": ["id"], "within": "10 minutes"}'
    """
    return json.dumps({name: part for name, part in form.items() if name != "version"})


def fingerprint(identity: str, more: bytes = b"") -> bytes:
    """Return eight bytes that stand for a text, and for what else it is of, such as a schema."""
    return blake2b(identity.encode() + more, digest_size=8).digest()
