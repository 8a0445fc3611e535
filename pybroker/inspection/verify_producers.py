"""Compares the snapshots of producers with the batches before their offsets.

A snapshot may know less than the log, because producers expire, and more, because retention has deleted batches. So what it knows
of a producer is compared only where the batch is still there. A log that was compacted is not compared: its batches are gone.

Source: ProducerStateManager, ProducerAppendInfo of Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.inspection.data_file import DataFile
from pybroker.inspection.entries import EntryError, producers
from pybroker.log.files.names import offset_of
from pybroker.model import NO_OFFSET
from pybroker.records.batch import BatchView

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pybroker.inspection.batches import Batch
    from pybroker.inspection.findings import Findings
    from pybroker.model import Offset, ProducerId

PRODUCERS_MAX: Final = 100_000
"""A log with more producers is not compared, to keep the memory bounded."""


class ProducerCourse:
    """The producers as the batches so far show them, and the snapshots that are still to come."""

    def __init__(self, findings: Findings, paths: Sequence[Path]) -> None:
        self._findings = findings
        self._pending = sorted(paths, key=lambda path: offset_of(path.name), reverse=True)
        self._first_offset = NO_OFFSET
        self._last: dict[ProducerId, tuple[Offset, int]] = {}  # the last offset and the last sequence, by producer id
        self._open: dict[ProducerId, Offset] = {}  # the first offset of the open transaction, by producer id

    def stop(self) -> None:
        """Compare nothing from here on: batches are missing."""
        self._pending.clear()

    def feed(self, batch: Batch) -> None:
        """Compare the snapshots of offsets up to the batch, then take note of it."""
        if self._first_offset < 0:
            self._first_offset = batch.base_offset
        self.compare(batch.base_offset)
        view = batch.view
        if not self._pending or not isinstance(view, BatchView) or view.producer_id < 0:
            return
        if view.is_control:
            self._open.pop(view.producer_id, None)
            return
        self._last[view.producer_id] = (batch.last_offset, view.last_sequence)
        if view.is_transactional:
            self._open.setdefault(view.producer_id, batch.base_offset)
        if len(self._last) > PRODUCERS_MAX:
            self.stop()

    def compare(self, next_offset: Offset) -> None:
        """Compare the snapshots of offsets up to `next_offset`; those inside of a batch are passed over."""
        while self._pending and offset_of(self._pending[-1].name) <= next_offset:
            path = self._pending.pop()
            if offset_of(path.name) == next_offset and self._first_offset >= 0:
                self._compare(path)

    def _compare(self, path: Path) -> None:
        try:
            with DataFile(path) as file:
                for one in producers(file):
                    stored, found = (one.last_offset, one.last_sequence), self._last.get(one.producer_id)
                    if one.last_offset >= self._first_offset and found != stored:
                        text = f"producer {one.producer_id} has the last offset and sequence {stored}, but {found} in the log"
                        self._add(path, text)
                    first, in_log = one.transaction_first_offset, self._open.get(one.producer_id, NO_OFFSET)
                    if first != in_log and (first >= self._first_offset or first < 0):
                        text = f"the transaction of producer {one.producer_id} begins at {first}, but at {in_log} in the log"
                        self._add(path, text)
        except (EntryError, OSError):
            return  # what checks the file alone reports it

    def _add(self, path: Path, text: str) -> None:
        self._findings.add(path, "snapshot", f"{text}; -1 and None stand for none")
