"""Nothing in the image is for one kind of processor only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testing.containers.wheels import lock_files, missing, requirements
from testing.places import ROOT

ARCHITECTURES = re.compile(r"amd64|arm64|aarch64|x86[-_]64|--platform", re.IGNORECASE)
NAMES_NONE = ["Dockerfile", ".dockerignore", "docker-compose.yml", "testing/containers/base_image.sh"]


@pytest.mark.parametrize("lock", lock_files(), ids=lambda lock: lock.name)
def test_every_requirement_has_a_wheel_for_arm(lock: Path) -> None:
    assert requirements(lock)
    assert missing(lock, "aarch64") == ""


@pytest.mark.parametrize("name", NAMES_NONE)
def test_no_line_names_an_architecture(name: str) -> None:
    assert not ARCHITECTURES.search((ROOT / name).read_text())
