"""Reads topics from one place to another, alone or as a member of a group, and gives each record to a printer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.spark.wire.client import EARLIEST, LATEST
from pybroker.terminal import places
from pybroker.terminal.places import Place
from pybroker.terminal.reading import Reader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pybroker.records.batch import Record
    from pybroker.spark.wire.client import WireClient
    from pybroker.terminal.membership import Member
    from pybroker.tools.groups_admin import Partition

Print = Callable[["Partition", "Record"], None]

WAIT_MS: Final = 500
COMMIT_S: Final = 5.0
BEGINNING: Final = Place(EARLIEST)
END: Final = Place(LATEST)


class Choice(NamedTuple):
    """The records that are wanted. Without an end and without `is_following`, they end where the topics end now."""

    topics: Sequence[str]
    numbers: Sequence[int]
    begin: Place | None
    end: Place | None
    is_following: bool
    count_max: int | None
    committed: bool


class Consuming:
    """One run of `pybroker consume`. `flush` sends what was printed on its way."""

    def __init__(self, client: WireClient, choice: Choice, emit: Print, flush: Callable[[], object]) -> None:
        self._client, self._choice, self._print, self._flush = client, choice, emit, flush
        self._left = choice.count_max
        self._printed: dict[Partition, int] = {}

    def run(self) -> None:
        """Read until the end. Raises PipelineError, FailedError."""
        wanted = places.partitions(self._client, self._choice.topics, self._choice.numbers)
        begins = self._offsets(wanted, self._choice.begin or BEGINNING)
        reader = self._reader(begins, self._ends(wanted))
        while reader.positions and self._left != 0:
            self._round(reader)

    def run_in_group(self, member: Member) -> None:
        """Read what the group assigns, and commit what was printed, until the end. Raises PipelineError, FailedError."""
        places.partitions(self._client, self._choice.topics)  # reports a topic that does not exist
        while self._left != 0:
            assigned = member.join()
            begins = self._offsets(assigned, self._choice.begin or BEGINNING) | member.committed(assigned)
            reader = self._reader(begins, self._ends(assigned))
            self._printed = {}
            try:
                is_over = self._until_rebalance(member, reader)
            finally:
                member.commit(self._printed)
            if is_over:
                return

    def _until_rebalance(self, member: Member, reader: Reader) -> bool:
        """Read until the group rebalances, and return False; or until the end, and return True."""
        committed_at = time.monotonic()
        while self._left != 0:
            if not reader.positions:
                if not self._choice.is_following:
                    return True
                time.sleep(WAIT_MS / 1000)  # this member has no partitions
            else:
                self._round(reader)
            if time.monotonic() - committed_at > COMMIT_S:
                member.commit(self._printed)
                committed_at = time.monotonic()
            if not member.is_settled():
                return False
        return True

    def _round(self, reader: Reader) -> None:
        printed: dict[Partition, int] = {}
        try:
            for partition, record in reader.records(wait_ms=WAIT_MS):
                self._print(partition, record)
                printed[partition] = record.offset + 1
                if self._left is not None:
                    self._left -= 1
                    if self._left == 0:
                        break
            self._flush()
            self._printed = reader.reached_offsets  # what a broken pipe has taken before is printed again, rather than lost
        except KeyboardInterrupt:  # between any two steps: what was printed is on its way, and nothing else is committed
            self._flush()
            self._printed |= printed
            raise

    def _reader(self, begins: Mapping[Partition, int], ends: Mapping[Partition, int] | None) -> Reader:
        return Reader(self._client, begins, committed=self._choice.committed, ends=ends)

    def _ends(self, wanted: Sequence[Partition]) -> dict[Partition, int] | None:
        return None if self._choice.is_following else self._offsets(wanted, self._choice.end or END)

    def _offsets(self, wanted: Sequence[Partition], where: Place) -> dict[Partition, int]:
        return places.offsets(self._client, wanted, where, committed=self._choice.committed)
