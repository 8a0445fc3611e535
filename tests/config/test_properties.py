"""The syntax against what java.util.Properties makes of the same bytes (the expectations were taken from it)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.config.properties import PropertiesError, parse_properties

CASES = [
    ("", {}),
    ("a=b", {"a": "b"}),
    ("a:b", {"a": "b"}),
    ("a b", {"a": "b"}),
    ("a\t=\tb", {"a": "b"}),
    ("a = = b", {"a": "= b"}),
    ("a : : b", {"a": ": b"}),
    ("a=b=c", {"a": "b=c"}),
    ("a", {"a": ""}),
    ("a=", {"a": ""}),
    ("=b", {"": "b"}),
    ("  a=b  ", {"a": "b  "}),
    ("# no\n! no\n  # no\na=1 # yes", {"a": "1 # yes"}),
    ("a=1\r\nb=2\rc=3\n\n\nd=4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
    ("a=1,\\\n    2,\\\n\t3", {"a": "1,2,3"}),
    ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
    ("a=1\\\\\\\n2", {"a": "1\\2"}),
    ("a=1\\", {"a": "1"}),
    ("a=1\\\n# not a comment", {"a": "1# not a comment"}),
    ("# a comment is not continued\\\nb=2", {"b": "2"}),
    ("a\\=b=c", {"a=b": "c"}),
    ("a\\:b:c", {"a:b": "c"}),
    ("a\\ b=c", {"a b": "c"}),
    ("p=C\\:\\\\data\\q", {"p": "C:\\dataq"}),
    ("a=\\t\\n\\r\\f|", {"a": "\t\n\r\f|"}),
    ("a=\\u00e9\\u20AC", {"a": "é€"}),
    ("a=\\ud83d\\ude00", {"a": "😀"}),
    ("a=1\na=2", {"a": "2"}),
    ("listeners=PLAINTEXT://:9092,OTHER://[::1]:1", {"listeners": "PLAINTEXT://:9092,OTHER://[::1]:1"}),
]


@pytest.mark.parametrize(("text", "entries"), CASES)
def test_means_what_it_means_in_java(text: str, entries: dict[str, str]) -> None:
    assert parse_properties(text) == entries


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u12G4", "ok=1\na=\\u"])
def test_a_malformed_unicode_escape_names_its_line(text: str) -> None:
    with pytest.raises(PropertiesError, match=f"line {text.count(chr(10)) + 1}"):
        parse_properties(text)


PLAIN = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)


def escaped(text: str) -> str:
    """Return every character as an escape, in UTF-16 units, as Properties.store may write it."""
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


@given(st.dictionaries(PLAIN, PLAIN, max_size=5))
def test_what_is_escaped_comes_back(entries: dict[str, str]) -> None:
    text = "".join(f"{escaped(key)}={escaped(value)}\n" for key, value in entries.items())
    assert parse_properties(text) == entries
