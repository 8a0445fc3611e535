"""A switch between the twins of `replication.reading`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import pytest

from pybroker.replication import reading

LOOPS = ["native", "python"] if reading.IS_NATIVE else ["python"]
"""The twins that can be tested: the native part reads only the native objects of `partition_data`."""


@contextmanager
def use(name: str) -> Iterator[None]:
    """Use the loops of this module inside the block."""
    module = import_module(f"pybroker.replication._reading_{name}")
    with pytest.MonkeyPatch.context() as patch:
        for function in ("read_all_usual", "read_usual", "wanted_partitions"):
            patch.setattr(reading, function, getattr(module, function))
        yield
