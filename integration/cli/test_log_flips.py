"""Every byte of small files of real Kafka flipped: `log verify` and `log dump` end, and verify finds what matters."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.adoption.old_directories import unpack
from pybroker.inspection.dump import AUTO, Choice, objects_in
from pybroker.inspection.findings import Findings
from pybroker.inspection.lines import line_of
from pybroker.inspection.verify import verify
from testing.process.broker import is_kafka

pytestmark = pytest.mark.skipif(is_kafka(), reason="is about files")

MASKS = (0x01, 0x80)
EPOCHS = "leader-epoch-checkpoint"
UNNOTICED = {
    "tx-0": [(EPOCHS, 6)],
    "magic1-0": [(EPOCHS, 6), (EPOCHS, 8)],
}
"""Where a change leaves another sound file. The first epoch may begin later than the first batch: deleted records lie before it.
Batches of magic 1 have no epochs with which those of the checkpoint can be compared.
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("directories")
    unpack("kafka-2.8.2-stopped", made)
    return made


@pytest.mark.parametrize("partition", ["tx-0", "magic1-0"])
def test_every_flipped_byte(folder: Path, partition: str) -> None:
    (path,) = folder.glob(f"*/{partition}")
    first = min(path.glob("*.log")).stem
    chosen = [one for one in sorted(path.iterdir()) if one.suffix == ".snapshot" or not one.stem.isdigit() or one.stem == first]
    assert {".log", ".index", ".snapshot"} <= {one.suffix for one in chosen}
    missed = []
    for file in chosen:
        sound = file.read_bytes()
        for position in range(len(sound)):
            mask = MASKS[position % len(MASKS)]
            file.write_bytes(sound[:position] + bytes([sound[position] ^ mask]) + sound[position + 1 :])
            findings = Findings()
            verify(findings, path)
            if not findings.problem_count:
                missed.append((file.name, position))
            if not position % 7:
                for fields in objects_in(file, Choice(has_records=True, decoder=AUTO)):
                    assert line_of(fields)
        file.write_bytes(sound)
    assert not [one for one in missed if one not in UNNOTICED[partition]], missed
