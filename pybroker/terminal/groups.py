"""Groups of consumers: their members and lag in one table, and their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pybroker.listed import did_you_mean
from pybroker.protocol.error_codes import ErrorCode
from pybroker.terminal import configs, topics
from pybroker.terminal.numbers import counted
from pybroker.terminal.session import Cluster, FailedError, check
from pybroker.tools.groups_admin import EARLIEST, LATEST, Group, Member, Partition, by_topic
from pybroker.tools.kafka_errors import GROUP_ID_NOT_FOUND

if TYPE_CHECKING:
    from pybroker.terminal.output import Row

INACTIVE: Final = ("Empty", "Dead")
DEAD: Final = "Dead"


def described(cluster: Cluster, group_id: str) -> Group:
    """Return a group. Raises FailedError when there is none, RefusedError."""
    group = cluster.described(group_id)
    if group.state == DEAD:
        raise FailedError(f"group {group_id}: GROUP_ID_NOT_FOUND: there is no such group{_meant(cluster, group_id)}")
    return group


def _meant(cluster: Cluster, group_id: str) -> str:
    return did_you_mean(group_id, (str(one.group_id) for one in cluster.listed()))


def _check(cluster: Cluster, group_id: str, code: int) -> None:
    """Raise FailedError for a code that is not 0."""
    check(f"group {group_id}", code, meant=lambda: _meant(cluster, group_id) if code == GROUP_ID_NOT_FOUND else "")


def partitions_of(cluster: Cluster, group: Group) -> list[dict[str, Any]]:
    """Return a row for each partition that a member reads, or that has a committed offset. Raises RefusedError."""
    committed = cluster.committed(group.group_id)
    readers = {partition: member for member in group.members for partition in member.assigned}
    keys = sorted({*committed, *readers})
    ends = cluster.ends(by_topic(keys), LATEST)
    rows = [_row(group.group_id, key, offset=committed.get(key), end=ends.get(key), reader=readers.get(key)) for key in keys]
    return rows + [_row(group.group_id, None, offset=None, end=None, reader=one) for one in group.members if not one.assigned]


def lag_of(lags: Iterable[int | None]) -> int | None:
    """Return how far a group is behind in the partitions whose lag is known, and None where it is in none."""
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known else None


def _row(group_id: str, key: Partition | None, *, offset: int | None, end: int | None, reader: Member | None) -> dict[str, Any]:
    """Return the row of a partition, or of a member that reads none."""
    return {
        "group": group_id,
        "topic": None if key is None else key.topic,
        "partition": None if key is None else key.number,
        "offset": offset,
        "end": end,
        "lag": None if offset is None or end is None else max(0, end - offset),
        "client_id": None if reader is None else reader.client_id,
        "host": None if reader is None else reader.host,
        "member": None if reader is None else reader.member_id,
    }


def scope(cluster: Cluster, group_id: str, texts: Sequence[str]) -> list[Partition]:
    """Return the partitions of `topic` or `topic:0,2`; of no text, those with a committed offset. Raises FailedError."""
    if not texts:
        found = sorted(cluster.committed(group_id))
        if not found:
            members = cluster.described(group_id).members
            has = f", and has {counted(len(members), 'member')}" if members else ""
            is_known = any(one.group_id == group_id for one in cluster.listed())
            meant = "" if is_known else _meant(cluster, group_id)
            raise FailedError(f"group {group_id} has committed no offsets{has}: name topics with --topic{meant}")
        return found
    return [partition for text in texts for partition in chosen(cluster, text)]


def chosen(cluster: Cluster, text: str) -> list[Partition]:
    """Return the partitions of `topic` or `topic:0,2`. Raises FailedError."""
    name, separator, numbers = text.rpartition(":") if ":" in text else (text, "", "")
    (topic,) = cluster.metadata([name]).topics
    if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise topics.unknown_topic(name, configs.topic_names(cluster))
    check(f"topic {name}", topic.error_code)
    known = sorted(one.partition_index for one in topic.partitions)
    if not separator:
        return [Partition(name, index) for index in known]
    found = []
    for number in numbers.split(","):
        if not number.isdecimal() or int(number) not in known:
            raise FailedError(f"{text}: UNKNOWN_TOPIC_OR_PARTITION: {name} has partitions 0 to {len(known) - 1}, not {number!r}")
        found.append(Partition(name, int(number)))
    return found


def planned(cluster: Cluster, partitions: Sequence[Partition], group_id: str, to: Goal) -> list[dict[str, Any]]:
    """Return a row for each partition, with its committed and its new offset. Raises FailedError."""
    committed = cluster.committed(group_id)
    asked = by_topic(partitions)
    starts, ends = cluster.ends(asked, EARLIEST), cluster.ends(asked, LATEST)
    at_time = {} if to.at_ms is None else cluster.ends(asked, to.at_ms)
    rows = []
    for key in sorted(partitions):
        if key not in starts or key not in ends:
            raise FailedError(f"{key.topic}-{key.number}: LEADER_NOT_AVAILABLE: the partition has no leader")
        if to.at_ms is not None:
            wanted = at_time.get(key, -1)
            wanted = ends[key] if wanted < 0 else wanted
        elif to.shift is not None:
            if key not in committed:
                raise FailedError(f"{key.topic}-{key.number}: the group has no offset there to shift")
            wanted = committed[key] + to.shift
        elif to.offset is not None:
            wanted = to.offset
        else:
            wanted = starts[key] if to.is_beginning else ends[key]
        new = min(max(wanted, starts[key]), ends[key])
        rows.append(
            {
                "group": group_id,
                "topic": key.topic,
                "partition": key.number,
                "offset": committed.get(key),
                "new_offset": new,
                "end": ends[key],
                "new_lag": ends[key] - new,
            }
        )
    return rows


class Goal:
    """The offsets that a reset is to reach: one of the attributes decides, in this order."""

    def __init__(
        self, *, at_ms: int | None = None, shift: int | None = None, offset: int | None = None, is_beginning: bool = False
    ) -> None:
        self.at_ms, self.shift, self.offset, self.is_beginning = at_ms, shift, offset, is_beginning


def commit(cluster: Cluster, group_id: str, rows: Sequence[Row]) -> None:
    """Commit the new offsets. Raises FailedError while the group has members, RefusedError."""
    state = cluster.described(group_id).state
    if state not in INACTIVE:
        raise FailedError(f"group {group_id}: NON_EMPTY_GROUP: it is {state}; stop its members first")
    cluster.commit(group_id, {Partition(row["topic"], row["partition"]): int(row["new_offset"]) for row in rows})


def delete(cluster: Cluster, group_ids: Sequence[str]) -> None:
    """Delete groups. Raises FailedError."""
    errors: Mapping[str, int] = cluster.delete(group_ids)
    for group_id, code in errors.items():
        _check(cluster, group_id, code)


def delete_offsets(cluster: Cluster, group_id: str, partitions: Sequence[Partition]) -> None:
    """Delete committed offsets. Raises FailedError."""
    code, errors = cluster.delete_offsets(group_id, partitions)
    _check(cluster, group_id, code)
    for partition, error in errors.items():
        check(f"{partition.topic}-{partition.number}", error)
