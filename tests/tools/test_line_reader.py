"""Lines as records."""

from __future__ import annotations

import pytest

from pybroker.tools.errors import CommandError
from pybroker.tools.line_reader import LineReader


def test_a_line_is_a_value() -> None:
    assert LineReader({}).record("a\tb") == (None, b"a\tb", [])
    assert LineReader({}).record("") == (None, b"", [])


def test_a_key_stands_before_the_first_separator() -> None:
    reader = LineReader({"parse.key": "true", "key.separator": ":"})
    assert reader.record("k:v:w") == (b"k", b"v:w", [])
    with pytest.raises(CommandError, match="No key separator found on line number 2: 'kv'"):
        reader.record("kv")


def test_headers_stand_before_the_key() -> None:
    reader = LineReader({"parse.headers": "true", "parse.key": "TRUE"})
    assert reader.record("h1:v1,h2:v2\tk\tv") == (b"k", b"v", [("h1", b"v1"), ("h2", b"v2")])
    with pytest.raises(CommandError, match="No header key separator found in pair 'h' on line number 2"):
        reader.record("h\tk\tv")


def test_errors_can_be_ignored() -> None:
    reader = LineReader({"parse.headers": "true", "parse.key": "true", "ignore.error": "true"})
    assert reader.record("value") == (None, b"value", [])
    assert reader.record("h\tk\tv") == (b"k", b"v", [("h", None)])


def test_a_marker_is_null() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "null.marker": "NULL"})
    assert reader.record("h:NULL\tNULL\tNULL") == (None, None, [("h", None)])
    assert reader.record("NULL\tk\tv") == (b"k", b"v", [])
    with pytest.raises(CommandError, match="Header keys should not be equal to the null marker 'NULL'"):
        reader.record("NULL:1\tk\tv")


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"headers.delimiter": ","}, "headers.delimiter and headers.separator may not be equal"),
        ({"headers.separator": ":"}, "headers.separator and headers.key.separator may not be equal"),
        ({"null.marker": "\t"}, "null.marker and key.separator may not be equal"),
    ],
)
def test_separators_differ(properties: dict[str, str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        LineReader(properties)
