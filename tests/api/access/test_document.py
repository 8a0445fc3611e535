"""The list of permissions in the page on security is generated from the table."""

from __future__ import annotations

from pathlib import Path

from pybroker.api.access.document import rows

PAGE = Path(__file__).parents[3] / "docs" / "security.md"


def test_the_list_in_the_page_is_generated() -> None:
    assert f"\n{rows()}\n" in PAGE.read_text(), "pybroker apis --permissions"
