"""Checks what must be true of a history of transactions. `problems` returns a line for everything that is not.

lost         a record of a committed transaction is missing
aborted      a record of an aborted transaction is read by `read_committed`
torn         a part of a transaction is there: its end is not the same in all partitions
twice        a record is there more than once
order        records of a writer are not in the order in which they were sent to the partition
changed      a reader saw another thing than is there in the end, or did not see what is there
went back    a last stable offset is smaller than one that was seen before
hangs        the last stable offset does not reach the end although every transaction has ended
unfinished   an acknowledged record of a transaction that did not commit is missing for `read_uncommitted`
invented     a record that no writer sent
read twice   two committed transactions have read the same part of the input
skipped      a part of the input was read by no committed transaction
offset       the committed offset of the group is not where the last committed transaction has ended
stray        a topic that was made again has the marker of a transaction in which it was not
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from testing.transactions.history import Contents, History, Outcome, Reading, StableOffset, Written


def problems(history: History) -> list[str]:
    """Return what is wrong, each with its kind at the beginning of the line; nothing for a history that is exact."""
    return [
        *_offsets(history),
        *_records(history),
        *_partitions(history),
        *_readings(history),
        *_claims(history),
        *_markers(history),
    ]


def kinds(found: list[str]) -> set[str]:
    """Return the kinds of problems."""
    return {line.partition(":")[0] for line in found}


def _offsets(history: History) -> Iterator[str]:
    for number, partition in history.last.items():
        if partition.last_stable_offset != partition.high_watermark:
            yield f"hangs: partition {number} is stable up to {partition.last_stable_offset} of {partition.high_watermark}"
    for what, offsets in (("stable", history.stable_offsets), ("committed", history.committed_offsets)):
        for number in {one.partition for one in offsets}:
            yield from _went_back(what, offsets, number)


def _went_back(what: str, offsets: Iterable[StableOffset], partition: int) -> Iterator[str]:
    seen = [one for one in offsets if one.partition == partition]
    by_end = sorted(seen, key=lambda one: one.ended)
    largest, position = -1, 0
    for one in sorted(seen, key=lambda one: one.began):
        while position < len(by_end) and by_end[position].ended < one.began:
            largest = max(largest, by_end[position].offset)
            position += 1
        if one.offset < largest:
            yield f"went back: partition {partition} was {what} up to {largest}, and then up to {one.offset}"


def _records(history: History) -> Iterator[str]:
    committed = {number: {value for _, value in one.committed} for number, one in history.last.items()}
    everything = {number: {value for _, value in one.uncommitted} for number, one in history.last.items()}
    for written in history.transactions:
        sent = [(partition, value) for partition, values in written.records.items() for value in values]
        there = [value for partition, value in sent if value in committed[partition]]
        if written.outcome is Outcome.COMMITTED:
            yield from (f"lost: {value!r} of {written}" for partition, value in sent if value not in committed[partition])
        elif written.outcome is Outcome.ABORTED:
            yield from (f"aborted: {value!r} of {written}" for value in there)
        elif 0 < len(there) < len(sent):
            yield f"torn: {written} has {len(there)} of {len(sent)} records"
        for partition, value in sent:
            is_removed = history.is_compacted and written.outcome is not Outcome.COMMITTED and not there
            if value in written.acknowledged and value not in everything[partition] and not is_removed:
                yield f"unfinished: {value!r} of {written}"


def _partitions(history: History) -> Iterator[str]:
    places: dict[bytes, tuple[Written, int, int]] = {}  # the transaction, the partition, the place in it
    for written in history.transactions:
        for partition, values in written.records.items():
            places |= {value: (written, partition, place) for place, value in enumerate(values)}
    for number, last in history.last.items():
        for isolation, records in (("read_committed", last.committed), ("read_uncommitted", last.uncommitted)):
            counts = Counter(value for _, value in records)
            yield from (f"twice: {value!r} for {isolation} in {number}" for value, count in counts.items() if count > 1)
            for value in counts:
                if value not in places or places[value][1] != number:
                    yield f"invented: {value!r} for {isolation} in {number}"
        yield from _order(number, last, places)


def _order(number: int, last: Contents, places: dict[bytes, tuple[Written, int, int]]) -> Iterator[str]:
    before: dict[str, tuple[int, int]] = {}
    for _, value in last.uncommitted:
        if value not in places:
            continue
        written, _, place = places[value]
        if (written.number, place) < before.get(written.writer, (-1, -1)):
            yield f"order: {value!r} in {number} is behind a later one of {written.writer}"
        before[written.writer] = (written.number, place)


def _readings(history: History) -> Iterator[str]:
    for reading in history.readings:
        expected = [one for one in history.last[reading.partition].committed if one[0] < reading.position]
        if reading.records != expected:
            yield f"changed: {_difference(reading, expected)}"


def _claims(history: History) -> Iterator[str]:
    """Compare the parts of the input that committed transactions have read, which must follow each other."""
    committed = {value for one in history.last.values() for _, value in one.committed}
    claims = sorted(
        (written.claim, str(written))
        for written in history.transactions
        if written.claim is not None and any(value in committed for values in written.records.values() for value in values)
    )
    positions: Counter[int] = Counter()
    for claim, written in claims:
        position = positions[claim.partition]
        if claim.first != position:
            kind = "read twice" if claim.first < position else "skipped"
            yield f"{kind}: {written} has read {claim.first} to {claim.end} of {claim.partition}, after {position}"
        positions[claim.partition] = claim.end
    for partition, offset in history.last_offsets.items():
        if offset is None:
            yield f"hangs: the offset of partition {partition} is not stable"
        elif offset != positions[partition]:
            yield f"offset: {offset} is committed for partition {partition}, which was read up to {positions[partition]}"


def _markers(history: History) -> Iterator[str]:
    if history.last_removed_open:
        yield f"hangs: the topic that was made again has {history.last_removed_open} offsets that are not stable"
    for producer_id in history.last_markers:
        if history.touches.get(producer_id, -1) < history.made:
            yield f"stray: the topic that was made again has a marker of producer {producer_id}, which wrote to it only before"


def _difference(reading: Reading, expected: list[tuple[int, bytes]]) -> str:
    seen, there = set(reading.records), set(expected)
    subject = f"{reading.reader} up to {reading.position} of {reading.partition}"
    if seen == there:
        return f"{subject} saw records in another order, or again"
    return f"{subject} saw {sorted(seen - there)[:3]} which is not there, and did not see {sorted(there - seen)[:3]}"
