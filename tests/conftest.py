"""Ids that a unit test's broker makes up are the same in every run, because member ids decide the assignment of partitions."""

from __future__ import annotations

import random
import uuid

import pytest


def pytest_configure(config: pytest.Config) -> None:
    patch = pytest.MonkeyPatch()
    patch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=random.randbytes(16), version=4))
    config.add_cleanup(patch.undo)
