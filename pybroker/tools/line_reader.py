"""Parses lines as records: `h1:v1,h2:v2 <tab> key <tab> value`, with headers and key only where the properties ask for them.

Source: kafka.tools.ConsoleProducer.LineMessageReader of Kafka 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from pybroker.tools.errors import CommandError


class LineRecord(NamedTuple):
    """The record that a line holds."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class LineReader:
    """Parses lines by the properties of --property. Raises CommandError when two separators are the same."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._has_key = _is_true(properties, "parse.key")
        self._has_headers = _is_true(properties, "parse.headers")
        self._is_lenient = _is_true(properties, "ignore.error")
        self._key_separator = properties.get("key.separator", "\t")
        self._delimiter = properties.get("headers.delimiter", "\t")
        self._headers_separator = properties.get("headers.separator", ",")
        self._header_key_separator = properties.get("headers.key.separator", ":")
        self._null = properties.get("null.marker")
        self._number = 0
        self._check()

    def _check(self) -> None:
        named = (
            ("headers.delimiter", self._delimiter),
            ("headers.separator", self._headers_separator),
            ("headers.key.separator", self._header_key_separator),
        )
        for index, (name, value) in enumerate(named):
            for other, same in named[index + 1 :]:
                if value == same:
                    raise CommandError(f"{name} and {other} may not be equal")
        for name, value in (("key.separator", self._key_separator), *named):
            if self._null == value:
                raise CommandError(f"null.marker and {name} may not be equal")

    def record(self, line: str) -> LineRecord:
        """Parse the next line, which comes without its end. Raises CommandError."""
        self._number += 1
        position = 0
        headers = key = None
        if self._has_headers:
            headers, position = self._part(line, position, self._delimiter, "headers delimiter")
        if self._has_key:
            key, position = self._part(line, position, self._key_separator, "key separator")
        return LineRecord(self._bytes(key), self._bytes(line[position:]), self._headers(headers))

    def _part(self, line: str, start: int, separator: str, name: str) -> tuple[str | None, int]:
        """Return the text before a separator, and where the rest begins."""
        end = line.find(separator, start)
        if end >= 0:
            return line[start:end], end + len(separator)
        if self._is_lenient:
            return None, start
        raise CommandError(f"No {name} found on line number {self._number}: '{line}'")

    def _headers(self, text: str | None) -> list[tuple[str, bytes | None]]:
        if text is None or text == self._null:
            return []
        parts = re.split(self._headers_separator, text)
        while len(parts) > 1 and not parts[-1]:  # Java's split drops empty parts at the end
            parts.pop()
        return [self._header(part) for part in parts]

    def _header(self, pair: str) -> tuple[str, bytes | None]:
        key, separator, value = pair.partition(self._header_key_separator)
        if not separator:
            if self._is_lenient:
                return pair, None
            raise CommandError(f"No header key separator found in pair '{pair}' on line number {self._number}")
        if key == self._null:
            raise CommandError(f"Header keys should not be equal to the null marker '{self._null}' as they can't be null")
        return key, self._bytes(value)

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self._null else text.encode()


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"
