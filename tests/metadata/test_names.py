"""Kafka's rules for names, and the ids that are never given out."""

from __future__ import annotations

import pytest

from pybroker.metadata import names
from pybroker.model import topic_id_parse, topic_id_text


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("t", None),
        ("A.b_c-9", None),
        ("...", None),
        ("a" * 249, None),
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a" * 250, f"the length of '{'a' * 250}' is longer than the max allowed length 249"),
        ("a b", "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a/b", "'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a\n", "'a\n' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("ä", "'ä' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("٣", "'٣' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("\x00", "'\x00' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
    ],
)
def test_names(name: str, reason: str | None) -> None:
    assert names.invalid_name_reason(name) == reason


@pytest.mark.parametrize(("one", "other", "collide"), [("a.b", "a_b", True), ("a.b", "a-b", False), ("a..b", "a._b", True)])
def test_collisions(one: str, other: str, collide: bool) -> None:
    assert (names.collision_key(one) == names.collision_key(other)) is collide


def test_random_ids_are_distinct_and_never_look_like_an_option() -> None:
    texts = {topic_id_text(names.random_topic_id()) for _ in range(2000)}
    assert len(texts) == 2000
    assert not any(text.startswith("-") for text in texts)
    assert all(topic_id_parse(text)[6] >> 4 == 4 for text in texts), "version 4"
