"""Snapshots with other contents than an operator wrote, which their head fits."""

from __future__ import annotations

import struct
import zlib
from typing import Final

HEAD: Final = 24
"""Bytes before the contents: a magic number, the version, the length of the contents and their checksum."""


def sealed(snapshot: bytes, body: bytes) -> bytes:
    """Return other contents under the head of a snapshot, with the length and the checksum that they have."""
    return snapshot[:12] + struct.pack("<QI", len(body), zlib.crc32(body)) + body
