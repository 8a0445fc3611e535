"""The stories in `tests/scenarios` come out as they are written.

With `PYBROKER_WRITE_SCENARIOS=1` the test writes what comes out.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pybroker.sharing import work
from tests.coordinator.scenario import Story

FOLDER = Path(__file__).parents[1] / "scenarios"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.txt")))
async def test_the_story_comes_out(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "SLICE_S", 60.0)  # on a busy machine even a short list may take longer than a slice
    path = FOLDER / f"{name}.txt"
    expected = path.read_text()
    played = await Story(tmp_path).play(expected)
    if os.environ.get("PYBROKER_WRITE_SCENARIOS"):
        path.write_text(played)
    assert played == expected
