"""Ids that a unit test's broker makes up are the same every time, as member ids decide who is assigned what."""

from __future__ import annotations

import random
import uuid

import pytest


def pytest_configure(config: pytest.Config) -> None:
    patch = pytest.MonkeyPatch()
    patch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=random.randbytes(16), version=4))
    config.add_cleanup(patch.undo)
