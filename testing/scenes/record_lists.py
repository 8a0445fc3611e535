"""Random lists of records, and the two sets of kernels."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar
from unittest import mock

import pytest
from hypothesis import strategies as st

from pybroker.model import Offset
from pybroker.records import _conversions_python, _kernels_python, _sections_python, conversions, kernels, sections
from pybroker.records.batch import Record
from pybroker.records.build import build_record_section
from pybroker.records.errors import CorruptRecordError

with warnings.catch_warnings():  # kafka-python warns while it is imported
    warnings.simplefilter("ignore")
    from kafka import codec as kafka_codec
    from kafka.record import default_records as kafka_default
    from kafka.record import legacy_records as kafka_legacy
    from kafka.record import memory_records as kafka_memory

__all__ = [
    "BASE_MS",
    "BOTH",
    "KERNELS",
    "kafka_codec",
    "kafka_default",
    "kafka_legacy",
    "kafka_memory",
    "kernels_of",
    "outcome",
    "record_lists",
    "section_of",
    "some_records",
    "unless_corrupt",
    "without_headers",
]


BOTH = [pytest.param(_kernels_python, id="pure")]
with suppress(ImportError):  # it may not have been built
    BOTH.insert(0, pytest.param(import_module("pybroker.records._kernels_native"), id="native"))

KERNELS: dict[str, ModuleType] = {str(one.id): one.values[0] for one in BOTH}  # type: ignore[misc]  # only modules are in it
"""The same by name, for tests that run both on what they draw."""

NAMES = (
    "accept_batch",
    "accept_copies",
    "crc32",
    "scan_records",
    "take_records",
)
BASE_MS = 1_700_000_000_000


T = TypeVar("T")


@contextlib.contextmanager
def kernels_of(module: ModuleType) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name in NAMES:
            stack.enter_context(mock.patch.object(kernels, name, getattr(module, name)))
        for facade, twin in ((sections, _sections_python), (conversions, _conversions_python)):
            part = import_module(module.__name__.replace("kernels", facade.__name__.rpartition(".")[2]))
            for name in twin.__all__:
                stack.enter_context(mock.patch.object(facade, name, getattr(part, name)))
        yield


def some_records(count: int, *, base_offset: int = 0, value_size: int = 20, key: bytes | None = b"k") -> list[Record]:
    return [
        Record(Offset(base_offset + i), BASE_MS + i * 3, key, (b"%d-" % i * value_size)[:value_size], (("h", b"x"), ("n", None)))
        for i in range(count)
    ]


FIELDS = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=5), FIELDS), max_size=3).map(tuple)
TIMESTAMPS = st.integers(-1, 1 << 62) | st.integers(BASE_MS, BASE_MS + 10_000)


@st.composite
def record_lists(draw: st.DrawFn, *, min_size: int = 1, has_gaps: bool = False) -> list[Record]:
    """Draw records with growing offsets; without gaps they count 0, 1, 2... from the first."""
    offset = draw(st.integers(0, 1 << 40))
    found = []
    for _ in range(draw(st.integers(min_size, 12))):
        found.append(Record(Offset(offset), draw(TIMESTAMPS), draw(FIELDS), draw(FIELDS), draw(HEADERS)))
        offset += draw(st.integers(1, 1000)) if has_gaps else 1
    return found


def without_headers(records: list[Record]) -> list[Record]:
    return [record._replace(headers=()) for record in records]


def section_of(records: list[Record]) -> tuple[bytes, int, int]:
    """Return the records as bytes, with the offset and the timestamp that they count from."""
    base_offset, base_timestamp = records[0].offset, records[0].timestamp
    return (
        bytes(build_record_section(records, base_offset=base_offset, base_timestamp=base_timestamp)),
        base_offset,
        base_timestamp,
    )


def outcome(function: Callable[..., Any], *arguments: object) -> object:
    """Return the function's result, or the kind of damage that it finds."""
    try:
        return function(*arguments)
    except CorruptRecordError as error:
        return type(error)


def unless_corrupt(function: Callable[[], T]) -> T | None:
    """Return the function's result, or None when it finds damage; any other exception is a crash."""
    try:
        return function()
    except CorruptRecordError:
        return None
