"""A broker that is alone names the settings that only several brokers can keep."""

from __future__ import annotations

import pytest

from pybroker.broker.alone import warning_of
from pybroker.config.load import load


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"default.replication.factor": "3"}, ["with default.replication.factor=3 the topics"]),
        ({"offsets.topic.replication.factor": "3", "min.insync.replicas": "2"},
         ["with offsets.topic.replication.factor=3 the topics", "min.insync.replicas=2 protects no record"]),
        ({"default.replication.factor": "3", "min.insync.replicas": "2", "pybroker.replication.factor.accept": "any"},
         ["alone: min.insync.replicas=2 protects no record"]),
    ],
)  # fmt: skip
def test_settings_for_several_brokers_are_named(settings: dict[str, str], words: list[str]) -> None:
    line = warning_of(load(overrides=settings).config)
    assert line is not None
    assert all(one in line for one in words), line
    assert "\n" not in line


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"default.replication.factor": "1", "min.insync.replicas": "1"},
        {"default.replication.factor": "3", "pybroker.replication.factor.accept": "any"},
    ],
)
def test_other_settings_are_no_line(settings: dict[str, str]) -> None:
    assert warning_of(load(overrides=settings).config) is None
