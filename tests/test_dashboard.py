"""The dashboard imports into any Grafana: it names no data source and no instance, and queries only metrics that exist."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from testing.places import ROOT

BOARD = json.loads((ROOT / "container/grafana/dashboards/pybroker.json").read_text())
METRICS = set(re.findall(r"^\| `([A-Za-z_]+)`", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE))
SELECTOR = re.compile(r"\b((?:kafka|pybroker)_\w+)(\{[^}]*\})?")
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
TARGETS = [target for panel in BOARD["panels"] for target in panel.get("targets", [])]
VARIABLES = {one["name"]: one for one in BOARD["templating"]["list"]}


def sources(value: Any) -> list[Any]:
    """Return every data source that a part of the dashboard names."""
    if isinstance(value, list):
        return [source for one in value for source in sources(one)]
    if not isinstance(value, dict):
        return []
    here = [value["datasource"]] if isinstance(value.get("datasource"), dict | str) else []
    return here + [source for one in value.values() for source in sources(one)]


def test_the_data_source_is_a_variable() -> None:
    assert (VARIABLES["datasource"]["type"], VARIABLES["datasource"]["query"]) == ("datasource", "prometheus")
    named = sources(BOARD)
    assert len(named) > len(TARGETS)
    assert [source for source in named if source != SOURCE] == []
    assert "__inputs" not in BOARD, "Grafana asks for inputs at an import by hand, and not for a file that it is provisioned with"


def test_every_query_is_of_the_chosen_instances_and_of_a_metric_that_exists() -> None:
    assert list(VARIABLES) == ["datasource", "instance", "topic"]
    for expression in [target["expr"] for target in TARGETS] + [VARIABLES["topic"]["definition"]]:
        selectors = SELECTOR.findall(expression)
        assert selectors, expression
        for name, labels in selectors:
            assert 'instance=~"$instance"' in labels, expression
            assert re.sub(r"_(sum|count)$", "", name) in METRICS or name in METRICS, name


@pytest.mark.parametrize("metric", ["kafka_consumergroup_lag_sum", "kafka_consumergroup_members"])
def test_the_lag_and_the_members_of_groups_have_panels(metric: str) -> None:
    assert [panel["title"] for panel in BOARD["panels"] if any(metric in one["expr"] for one in panel.get("targets", []))]


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    places = [
        (x, y)
        for panel in BOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len({*places}) == len(places)
