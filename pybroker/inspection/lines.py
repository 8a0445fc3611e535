"""The lines of `pybroker log dump` for a person, in the form of Kafka's DumpLogSegments."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from pybroker.inspection.text import BASE64, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping


def line_of(fields: Mapping[str, object]) -> str:
    """Return the line of one object of a dump."""
    kind = fields["type"]
    if kind == "file":
        offset = fields.get("baseOffset")
        return f"Dumping {fields['file']}" + ("" if offset is None else f"\nLog starting offset: {offset}")
    if kind == "problem":
        place = f"byte {fields['position']}: " if "position" in fields else ""
        return f"Problem: {place}{fields['kind']}: {fields['text']}"
    words = [_word(name, value) for name, value in fields.items() if name != "type"]
    return " ".join(["|", *words] if kind == "record" else words)


def _word(name: str, value: object) -> str:
    if name == "headers" and isinstance(value, list):
        return f"headers: [{','.join(_header(one) for one in value)}]"
    if isinstance(value, dict):
        return f"{name}: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}"
    if name.endswith(BASE64):
        return f"{name.removesuffix(BASE64)}: {text_of(base64.b64decode(str(value)))}"
    return f"{name}: {_text(value)}"


def _header(header: Mapping[str, object]) -> str:
    value = next(_word(name, value) for name, value in header.items() if name != "key")
    return f"{_text(header['key'])}={value.removeprefix('value: ')}"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return text_of(value.encode(errors="surrogateescape")) if isinstance(value, str) else str(value)
