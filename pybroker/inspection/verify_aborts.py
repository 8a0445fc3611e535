"""Compares the markers of aborted transactions with the transaction index of their segment, which must have an entry for each.

A reader with `read_committed` learns of an aborted transaction only by its entry. Without it, the records of the transaction
count as committed. A marker needs an entry if records of its transaction are before it in the log, and none otherwise.
A log that was compacted is not compared: its cleaner removes the records, and the entries with them.

Source: ProducerStateManager, UnifiedLog.updateProducers of Kafka.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from pybroker.inspection.contents import BATCH_BYTES_MAX, records
from pybroker.inspection.data_file import DataFile
from pybroker.inspection.entries import transaction_entries
from pybroker.inspection.places import Place
from pybroker.model import Offset
from pybroker.records.batch import BatchView
from pybroker.records.control import ControlType, control_type_of
from pybroker.records.errors import CorruptRecordError

if TYPE_CHECKING:
    from pathlib import Path

    from pybroker.inspection.batches import Batch
    from pybroker.inspection.findings import Findings

PRODUCERS_MAX: Final = 100_000
"""When more transactions are open, they are forgotten, to keep the memory bounded."""

MARKERS_MAX: Final = 100_000
"""This many markers of one segment are compared, to keep the memory bounded."""


class AbortCourse:
    """The open transactions as the batches so far show them, and the markers of the segment that is read."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._open: dict[int, int] = {}  # the first offset of the open transaction, by producer id
        self._markers = array("q")  # offset, producer id and first offset of each transaction that was aborted

    def stop(self) -> None:
        """Forget the open transactions: batches are missing, and their ends may be among them."""
        self._open.clear()

    def feed(self, file: DataFile, batch: Batch) -> None:
        """Take note of a batch whose checksum is right. Raises OSError."""
        view = batch.view
        if not isinstance(view, BatchView) or not view.is_transactional or view.producer_id < 0:
            return
        if not view.is_control:
            self._open.setdefault(view.producer_id, batch.base_offset)
            if len(self._open) > PRODUCERS_MAX:
                self.stop()
            return
        first = self._open.pop(view.producer_id, None)
        if first is not None and len(self._markers) < 3 * MARKERS_MAX and _is_abort(file, batch):
            self._markers.extend((batch.last_offset, view.producer_id, first))

    def compare(self, data: Path) -> None:
        """Report the markers of the segment at `data` that its index lacks. Raises OSError.

        The index is read now, after the data: beside a broker that runs, the entry is written after the marker.
        """
        markers, self._markers = self._markers, array("q")
        if not markers:
            return
        path = data.with_suffix(Place.TRANSACTION_INDEX.value)
        entries: set[tuple[int, int]] = set()
        if path.is_file():
            with DataFile(path) as file:
                wanted = set(markers[::3])
                entries = {
                    (one.last_offset, one.producer_id) for _, _, one in transaction_entries(file) if one.last_offset in wanted
                }
        for at in range(0, len(markers), 3):
            offset, producer_id, first = Offset(markers[at]), *markers[at + 1 : at + 3]
            if (offset, producer_id) not in entries:
                text = f"the transaction of producer {producer_id} from offset {first} was aborted at {offset}, but has no entry"
                self._findings.add(path, "transaction index", text, offset=offset)


def _is_abort(file: DataFile, batch: Batch) -> bool:
    """Return whether a control batch aborts a transaction. One that cannot be read does not; another check reports it."""
    if batch.size > BATCH_BYTES_MAX:
        return False
    try:
        return any(control_type_of(record.key) is ControlType.ABORT for record in records(file, batch))
    except CorruptRecordError:
        return False
