"""The page of the APIs is generated from the code, and the key, name and versions in the headers of handlers are true."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.api import document
from pybroker.api.registry import APIS, Served

DOCUMENT = Path(__file__).parents[2] / "docs" / "apis.md"


def test_the_committed_document_is_generated() -> None:
    assert DOCUMENT.read_text() == document.markdown(), "pybroker apis > docs/apis.md"


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_a_module_describes_what_it_serves(api: Served) -> None:
    description = document.describe(api)
    assert (description.key, description.name, description.versions) == (api.key, api.name, document.versions(api))
