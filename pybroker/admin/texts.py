"""Bytes in JSON: a text if they are UTF-8, else an object with them in base64; null for none."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from pybroker.admin.body import schema_of
from pybroker.admin.calls import BAD_REQUEST, AdminError, Json

SCHEMA: Final = {**schema_of(("base64",), base64={"type": "string"}), "type": ["string", "object", "null"]}


def of_bytes(data: bytes | None, bytes_max: int | None = None) -> Json | str | None:
    """Return bytes as they are shown, no more than `bytes_max` of them."""
    if data is None:
        return None
    shown = data if bytes_max is None else data[:bytes_max]
    try:
        return shown.decode()
    except UnicodeDecodeError as error:
        if len(shown) < len(data) and error.start >= len(shown) - 3:  # cut in a character
            return shown[: error.start].decode()
        return {"base64": base64.b64encode(shown).decode()}


def bytes_of(value: Any, name: str) -> bytes | None:
    """Return the bytes that a value of the form above stands for. Raises AdminError."""
    if isinstance(value, dict):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            raise AdminError(BAD_REQUEST, f"{name} is not base64: {error}") from error
    try:
        return None if value is None else str(value).encode()
    except UnicodeEncodeError as error:
        raise AdminError(BAD_REQUEST, f"{name} is not Unicode: {error.reason}") from error
