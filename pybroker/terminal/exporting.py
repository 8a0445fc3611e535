"""Writes the records of topics, their settings and the commits of groups to a folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO, Final

from pybroker.records.batch import BatchView
from pybroker.spark.progress import Standing
from pybroker.spark.wire.client import EARLIEST, LATEST
from pybroker.terminal import configs, places, topics
from pybroker.terminal.export_folder import Manifest, file_of
from pybroker.terminal.formats import as_json
from pybroker.terminal.places import Place
from pybroker.terminal.reading import Reader, entries
from pybroker.terminal.session import FailedError
from pybroker.tools.groups_admin import Partition

if TYPE_CHECKING:
    from pathlib import Path

    from pybroker.spark.wire.client import WireClient
    from pybroker.terminal.session import Cluster

WAIT_MS: Final = 500


class Export:
    """One run of `pybroker export`. `standing` shows how far it has come. Methods raise PipelineError, FailedError, OSError."""

    def __init__(self, cluster: Cluster, client: WireClient, folder: Path, form: str) -> None:
        self._cluster, self._client, self._folder, self._form = cluster, client, folder, form
        self._records = self._bytes = self._total = self._passed = 0
        self._bytes_of_files = 0
        self._at: tuple[Reader | None, Partition, int] = None, Partition("", 0), 0

    def standing(self) -> Standing:
        """Return the offsets that are done, of all."""
        reader, partition, begin = self._at
        passed = 0 if reader is None else reader.reached_offsets[partition] - begin
        return Standing(self._passed + passed, self._total, self._bytes)

    def run(self, names: Sequence[str], begin: Place | None, end: Place | None) -> Manifest:
        """Write everything, and return the manifest."""
        if self._folder.exists() and any(self._folder.iterdir()):
            raise FailedError(f"{self._folder} is not empty: name a new folder")
        self._folder.mkdir(parents=True, exist_ok=True)
        found = topics.found(self._cluster, names, has_internal=False)
        if not found:
            raise FailedError("there are no topics")
        listed = [str(topic.name) for topic in found]
        manifest = Manifest(self._form, str(self._cluster.metadata([]).cluster_id))
        for topic in found:
            own = configs.settings(self._cluster, "topic", topic.name, is_all=False)
            settings = {one["name"]: one["value"] for one in own if one["source"] == "topic"}
            manifest.topics[topic.name] = {"partitions": len(topic.partitions), "configs": settings}
        wanted = places.partitions(self._client, listed)
        begins = places.offsets(self._client, wanted, begin or Place(EARLIEST), committed=True)
        ends = places.offsets(self._client, wanted, end or Place(LATEST), committed=True)
        self._total = sum(max(0, ends[one] - begins[one]) for one in wanted)
        manifest.groups = self._commits(set(listed))
        for partition in wanted:
            self._partition(partition, begins[partition], end=ends[partition])
        manifest.records = self._records
        manifest.write(self._folder)
        return manifest

    def _commits(self, listed: set[str]) -> list[dict[str, object]]:
        return [
            {"group": group.group_id, "topic": partition.topic, "partition": partition.number, "offset": offset}
            for group in self._cluster.listed()
            for partition, offset in sorted(self._cluster.committed(group.group_id).items())
            if partition.topic in listed
        ]

    def _partition(self, partition: Partition, begin: int, *, end: int) -> None:
        path = file_of(self._folder, partition, begin, self._form)
        path.parent.mkdir(exist_ok=True)
        reader = Reader(self._client, {partition: begin}, committed=True, ends={partition: end})
        write = self._lines if self._form == "jsonl" else self._batches
        self._at = reader, partition, begin
        with path.open("xb") as file:
            while reader.positions:
                write(reader, partition, end, file)
                self._bytes = self._bytes_of_files + file.tell()
        self._at = None, partition, begin
        self._passed += max(0, end - begin)
        self._bytes_of_files = self._bytes

    def _lines(self, reader: Reader, partition: Partition, end: int, file: BinaryIO) -> None:  # noqa: ARG002
        for one, record in reader.records(wait_ms=WAIT_MS):
            file.write(as_json(one, record).encode(errors="backslashreplace") + b"\n")
            self._records += 1

    def _batches(self, reader: Reader, partition: Partition, end: int, file: BinaryIO) -> None:
        """Write batches as they are, also those of aborted transactions, and the markers: an import leaves these out."""
        for one, data, aborted in reader.rounds(wait_ms=WAIT_MS):
            for entry in entries(one, data):
                if not isinstance(entry, BatchView):
                    raise FailedError(f"{partition.topic}-{partition.number} has messages of an old format: use --format jsonl")
                if one not in reader.positions or entry.base_offset >= end:
                    break
                file.write(entry.data)
                if not (aborted.has(entry) or entry.is_control):
                    self._records += min(entry.record_count, entry.next_offset - reader.positions[one])
                reader.reached(one, entry.next_offset)
