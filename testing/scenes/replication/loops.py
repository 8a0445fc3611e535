"""Which of the twins of `replication.kernels` are run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec

import pytest

from pybroker.replication import kernels

LOOPS = ["_native", "_pure"] if find_spec("pybroker.replication._native") is not None else ["_pure"]


@contextmanager
def use(name: str) -> Iterator[None]:
    """Run the loops of this module."""
    module = import_module(f"pybroker.replication.{name}")
    with pytest.MonkeyPatch.context() as patch:
        for function in ("answered_topics", "read_at_once", "read_partitions", "wanted_partitions"):
            patch.setattr(kernels, function, getattr(module, function))
        yield
