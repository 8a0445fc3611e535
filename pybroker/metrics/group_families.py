"""The metrics of groups, under the names of kafka_exporter, whose dashboards are the usual ones for the lag of consumers.

A page has at most `LINES_MAX` offsets and groups, so that groups without bound make no page without bound. Each group is shown
whole or not at all; one that no longer fits is counted.

Source: danielqsj/kafka_exporter for the names that begin with kafka_.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client.samples import Sample

if TYPE_CHECKING:
    from pybroker.metrics.broker_metrics import GroupReading

LINES_MAX: Final = 50_000
"""The number of groups on a page, and of the offsets that they have committed, together: two lines for each, 10 MB."""


class GroupFamily(NamedTuple):
    """A gauge of groups."""

    name: str
    help: str
    samples: Iterable[Sample]


def group_families(
    groups: Iterable[GroupReading], *, is_summed: bool, hidden: frozenset[str], take_break: Callable[[], None]
) -> Iterator[GroupFamily]:
    """Yield the gauges of groups, by partition or, if `is_summed`, only by topic. Topics in `hidden` are left out."""
    shown: list[GroupReading] = []
    left_out, left = 0, LINES_MAX
    for group in groups:
        take_break()
        cost = 1 + group.offset_count
        if cost <= left:
            left -= cost
            shown.append(group)
        else:
            left_out += 1
    name = "kafka_consumergroup_members"
    members = [Sample(name, {"consumergroup": group.group_id}, group.member_count) for group in shown]
    yield GroupFamily(name, "Members of a group", members)
    name = "pybroker_consumergroup_info"
    states = [
        Sample(name, {"consumergroup": group.group_id, "protocol": group.protocol, "state": group.state}, 1) for group in shown
    ]
    yield GroupFamily(name, "A group with its protocol and its state; always 1", states)
    if not is_summed:
        yield from _by_partition(shown, hidden)
    yield from _by_topic(shown, hidden, take_break)
    name = "pybroker_consumergroups_left_out"
    yield GroupFamily(name, "Groups for which the page has no room", [Sample(name, {}, left_out)])


def _by_partition(groups: list[GroupReading], hidden: frozenset[str]) -> Iterator[GroupFamily]:
    def samples(name: str, *, is_lag: bool) -> Iterator[Sample]:
        for group in groups:
            for topic, partition, offset, lag in group.read_offsets():
                value = lag if is_lag else offset
                if topic not in hidden and value is not None:
                    labels = {"consumergroup": group.group_id, "topic": topic, "partition": str(partition)}
                    yield Sample(name, labels, value)

    name = "kafka_consumergroup_current_offset"
    yield GroupFamily(name, "The offset that a group has committed", samples(name, is_lag=False))
    name = "kafka_consumergroup_lag"
    yield GroupFamily(name, "Records that a group has not read: high watermark less committed offset", samples(name, is_lag=True))


def _by_topic(groups: list[GroupReading], hidden: frozenset[str], take_break: Callable[[], None]) -> Iterator[GroupFamily]:
    offsets: dict[tuple[str, str], int] = {}
    lags: dict[tuple[str, str], int] = {}
    for group in groups:
        for topic, _, offset, lag in group.read_offsets():
            take_break()
            if topic not in hidden:
                key = (group.group_id, topic)
                offsets[key] = offsets.get(key, 0) + offset
                lags[key] = lags.get(key, 0) + (lag or 0)
    for name, help_text, sums in (
        ("kafka_consumergroup_current_offset_sum", "The committed offsets of all partitions of a topic", offsets),
        ("kafka_consumergroup_lag_sum", "The lag of all partitions of a topic", lags),
    ):
        samples = [Sample(name, {"consumergroup": group_id, "topic": topic}, value) for (group_id, topic), value in sums.items()]
        yield GroupFamily(name, help_text, samples)
