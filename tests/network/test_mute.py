"""The mute table against a set of reasons."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker.network.mute import TABLE, MuteCounters, MuteEvent, MuteReason


@given(st.lists(st.sampled_from(MuteEvent)))
def test_reasons_are_a_set_and_only_its_first_member_pauses(events: list[MuteEvent]) -> None:
    counters = MuteCounters()
    reasons, expected, pauses = 0, set[MuteReason](), 0
    for event in events:
        before = set(expected)
        reason, is_set = TABLE[event]
        (expected.add if is_set else expected.discard)(reason)
        pauses += not before and bool(expected)
        reasons = counters.after(reasons, event)
        assert reasons == sum(expected)
    assert counters.transitions == pauses
    assert sum(counters.by_reason.values()) >= counters.transitions


def test_every_reason_can_be_set_and_all_but_the_last_cleared() -> None:
    assert {reason for reason, is_set in TABLE if is_set} == set(MuteReason)
    assert {reason for reason, is_set in TABLE if not is_set} == set(MuteReason) - {MuteReason.CLOSED}


def test_a_request_at_a_time_and_memory_are_separate_reasons() -> None:
    counters = MuteCounters()
    reasons = 0
    for event in (MuteEvent.DATA_BEHIND_WORK, MuteEvent.MEMORY_REFUSED, MuteEvent.MEMORY_GRANTED):
        reasons = counters.after(reasons, event)
    assert reasons == MuteReason.REQUEST_IN_WORK, "memory that is back does not let in a second request"
