"""The internal topic of a coordinator: the reason for which it cannot be created is a line once in a while."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pybroker.coordinator import topic
from pybroker.coordinator.topic import CoordinatorTopic
from pybroker.metadata.controller import TopicOutcome
from pybroker.protocol.error_codes import ErrorCode, KafkaError


class RefusingController:
    """Refuses every topic for the same reason, which a test changes."""

    reason = "Unable to replicate the partition 3 time(s)"

    async def create_missing_topics(self, names: list[str]) -> dict[str, TopicOutcome]:
        error = KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, self.reason)
        return dict.fromkeys(names, TopicOutcome(error=error))


async def test_the_same_reason_is_a_line_once_in_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = RefusingController()
    found = CoordinatorTopic("__consumer_offsets", cast("Any", controller), cast("Any", None))
    for _ in range(3):
        assert await found.create() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    (line,) = caplog.messages
    assert line.startswith("__consumer_offsets cannot be created: Unable to replicate the partition 3 time(s); clients get")
    controller.reason = "no room"
    await found.create()
    assert len(caplog.messages) == 2, "another reason is a line at once"
    monkeypatch.setattr(topic, "REMIND_S", 0.0)
    await found.create()
    assert len(caplog.messages) == 3
