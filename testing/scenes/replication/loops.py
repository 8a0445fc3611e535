"""A switch between the twins of `replication.reading`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec

import pytest

from pybroker.replication import reading

LOOPS = ["native", "python"] if find_spec("pybroker.replication._reading_native") is not None else ["python"]


@contextmanager
def use(name: str) -> Iterator[None]:
    """Use the loops of this module inside the block."""
    module = import_module(f"pybroker.replication._reading_{name}")
    with pytest.MonkeyPatch.context() as patch:
        for function in ("read_at_once", "read_usual", "wanted_partitions"):
            patch.setattr(reading, function, getattr(module, function))
        yield
