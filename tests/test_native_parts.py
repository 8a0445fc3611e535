"""A test session refuses native parts that are older than their sources."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pybroker import native
from testing import native_parts


@pytest.mark.parametrize("part", native.PARTS)
def test_every_part_has_the_sources_that_it_is_compiled_from(part: str) -> None:
    names = {path.name for path in native_parts.sources(part)}
    stem = part.rpartition(".")[2]
    assert names & {f"_{stem}_native.pyx", f"_{stem}_python.py"}
    assert all(path.exists() for path in native_parts.sources(part))


def test_a_part_without_cython_text_is_compiled_from_its_twin() -> None:
    assert {path.name for path in native_parts.sources("log.tail")} == {"_tail_python.py", "_tail_native.pxd"}


@pytest.mark.parametrize(
    ("part", "shared"),
    [
        ("protocol.codec", {"_codec_making.pxi", "_codec_reading.pxi", "_codec_writing.pxi", "_tuples.pxd"}),
        ("records.conversions", {"_header.pxi", "_records.pxi", "_numbers.pxd", "_crc.pxd", "_crc.h"}),
        ("records.kernels", {"_records.pxi", "_numbers.pxd", "_crc.pxd", "_crc.h"}),
        ("replication.reading", {"_partition_data_native.pxd", "_tuples.pxd"}),
        ("network.connection", {"_receiver_native.pxd", "_sender_native.pxd", "_counters_native.pxd"}),
    ],
)
def test_shared_text_types_and_headers_are_sources_of_all_parts_that_use_them(part: str, shared: set[str]) -> None:
    assert {path.name for path in native_parts.sources(part)} >= shared


def test_an_extension_is_older_when_one_source_was_written_later(tmp_path: Path) -> None:
    extension, text, types = (tmp_path / name for name in ("x.so", "x.pyx", "x.pxd"))
    for path, time_s in ((extension, 20), (text, 10), (types, 10)):
        path.touch()
        os.utime(path, (time_s, time_s))
    assert not native_parts.is_older(extension, [text, types])
    os.utime(types, (30, 30))
    assert native_parts.is_older(extension, [text, types])


def test_without_native_parts_none_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.SWITCH, "1")
    assert native_parts.stale() == []
