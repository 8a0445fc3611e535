"""The partitions that a fetch session forgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.protocol.messages.fetch import ForgottenTopic
from tests.api.fetch.test_large import fetch, filled


@pytest.mark.parametrize("version", [11, 13])
async def test_a_session_forgets_what_it_has_and_what_it_gets_with_the_same_request(tmp_path: Path, version: int) -> None:
    whole, topic_id = await filled(tmp_path, 20)
    full = await whole.ask(fetch(*range(10), topic_id=topic_id, session_epoch=0), version)
    session = whole.services.fetch_sessions.get(full.session_id)
    assert session is not None
    forgotten = [ForgottenTopic(topic="t", topic_id=topic_id, partitions=[3, 1, 12, 99])]
    again = fetch(11, 12, topic_id=topic_id, session_id=full.session_id, session_epoch=1, forgotten_topics_data=forgotten)
    await whole.ask(again, version)
    assert {number for _, number in session.partitions} == {0, 2, *range(4, 10), 11}


async def test_a_session_forgets_a_partition_of_the_zero_topic_id(tmp_path: Path) -> None:
    whole, topic_id = await filled(tmp_path, 2)
    full = await whole.ask(fetch(0, topic_id=topic_id, session_epoch=0), 13)
    session = whole.services.fetch_sessions.get(full.session_id)
    assert session is not None
    await whole.ask(fetch(7, topic_id=bytes(16), session_id=full.session_id, session_epoch=1), 13)
    assert len(session.partitions) == 2
    forgotten = [ForgottenTopic(topic_id=bytes(16), partitions=[7])]
    await whole.ask(fetch(session_id=full.session_id, session_epoch=2, forgotten_topics_data=forgotten), 13)
    assert list(session.partitions) == [(topic_id, 0)]
