"""Topics come from a file of JSON or YAML, and a mistake in it is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pybroker.testing import Broker
from pybroker.testing.topics_file import topics_of_file

TOPICS = {"orders": {"partitions": 3, "settings": {"cleanup.policy": "compact"}}, "payments": None}


def written(folder: Path, content: object) -> Path:
    path = folder / "topics.json"
    path.write_text(json.dumps(content))
    return path


def test_a_topic_has_what_the_file_gives_it(tmp_path: Path) -> None:
    assert topics_of_file(written(tmp_path, TOPICS)) == [("orders", 3, {"cleanup.policy": "compact"}), ("payments", 1, {})]


async def test_the_topics_of_a_file_are_created(tmp_path: Path) -> None:
    async with Broker() as broker:
        await broker.create_topics(written(tmp_path, TOPICS))
        assert {name: len(topic.partitions) for name, topic in (await broker.topics()).items()} == {"orders": 3, "payments": 1}


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (["orders"], "topics by their names"),
        ({"orders": 3}, "orders must have only partitions and settings"),
        ({"orders": {"partition": 3}}, "not partition"),
        ({"orders": {"partitions": "3"}}, "partitions must be a number"),
        ({"orders": {"partitions": True}}, "partitions must be a number"),
        ({"orders": {}, "more": {"partitions": 0}}, "of more, partitions must be a number from 1 on"),
        ({"orders": {"settings": []}}, None),
        ({"orders": {"settings": ["a"]}}, "settings must have values"),
    ],
)
def test_a_mistake_is_named(content: object, error: str | None, tmp_path: Path) -> None:
    path = written(tmp_path, content)
    if error is None:
        assert topics_of_file(path) == [("orders", 1, {})]
        return
    with pytest.raises(ValueError, match=error) as caught:
        topics_of_file(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    path.write_text("orders:")
    with pytest.raises(ValueError, match="is not JSON"):
        topics_of_file(path)


def test_yaml_is_read(tmp_path: Path) -> None:
    path = tmp_path / "topics.yaml"
    path.write_text("orders:\n  partitions: 3\n  settings: {cleanup.policy: compact}\npayments:\n")
    assert topics_of_file(path) == [("orders", 3, {"cleanup.policy": "compact"}), ("payments", 1, {})]
    path.write_text("{")
    with pytest.raises(ValueError, match="is not YAML"):
        topics_of_file(path)
