"""What the documents say of the served versions is what is served."""

from __future__ import annotations

import re
from pathlib import Path

from pybroker.api.registry import APIS

DOCUMENT = Path(__file__).parents[2] / "docs" / "clients.md"


def test_the_table_of_versions_is_the_registry() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)(?:-(\d+))? \|$", DOCUMENT.read_text(), re.MULTILINE)
    documented = [(int(key), name, int(low), int(high or low)) for key, name, low, high in rows]
    assert documented == [(api.key, api.name, api.lowest, api.highest) for api in sorted(APIS.values(), key=lambda api: api.key)]
