"""Text for keys, values and other bytes."""

from __future__ import annotations

import base64
from typing import Final

BASE64: Final = "Base64"


def text_of(data: bytes | None) -> str:
    """Return bytes in one line: as text where they are UTF-8 and printable, other bytes as `\\xNN`; null for None."""
    if data is None:
        return "null"
    text = data.decode(errors="backslashreplace")
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def json_of(name: str, data: bytes | None) -> dict[str, object]:
    """Return a field for JSON: `name` if the bytes are UTF-8, `nameBase64` otherwise."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {name + BASE64: base64.b64encode(data).decode()}
