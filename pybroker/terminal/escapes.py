"""Separators as people write them on a command line: `\\t`, `\\n`, `\\x00`."""

from __future__ import annotations

import codecs


def unescaped(text: str) -> bytes:
    """Return the bytes of a text with escapes."""
    return codecs.escape_decode(text.encode())[0]
