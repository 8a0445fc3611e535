"""The committed page of the settings is the one that the table generates."""

from __future__ import annotations

from pathlib import Path

from pybroker.config import document
from pybroker.config.load import load
from pybroker.config.properties import parse_properties
from pybroker.config.setting import Effect
from pybroker.config.table import BROKER_SETTINGS
from pybroker.config.topic_settings import TOPIC_SETTINGS

ROOT = Path(__file__).parents[2]


def test_the_committed_properties_file_is_generated() -> None:
    assert (ROOT / "config" / "server.properties").read_text() == document.server_properties()


def test_the_committed_documentation_is_generated() -> None:
    assert (ROOT / "docs" / "configuration.md").read_text() == document.markdown()


def test_the_properties_file_sets_nothing_and_its_comments_are_the_defaults(tmp_path: Path) -> None:
    text = document.server_properties()
    assert parse_properties(text) == {}
    uncommented = "\n".join(line.removeprefix("#") for line in text.splitlines() if line.startswith("#") and line[1:2].islower())
    entries = parse_properties(uncommented)
    assert entries == {s.name: s.format(s.default) for s in BROKER_SETTINGS.values() if s.effect is not Effect.NEVER}
    file = tmp_path / "server.properties"
    file.write_text(uncommented)
    assert load(file=file).config.model_dump(exclude={"origins"}) == load().config.model_dump(exclude={"origins"})


def test_every_name_is_in_the_documentation_and_in_the_listing() -> None:
    page, listing = document.markdown(), document.listing()
    for name in (*BROKER_SETTINGS, *TOPIC_SETTINGS):
        assert f"| `{name}` |" in page
    assert sorted(BROKER_SETTINGS) == [line.split()[0] for line in listing.splitlines()[1:]]
