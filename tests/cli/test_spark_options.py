"""The commands of `pybroker spark` pass their options on to their jobs."""

from __future__ import annotations

import importlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from click.testing import CliRunner

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES: list[tuple[str, str, str, dict[str, Any]]] = [
    (
        "archive",
        "archive.job",
        "--bootstrap-server a:1 --file-mb 3 --allow-loss",
        {"file_bytes": 3 << 20, "is_loss_allowed": True},
    ),
    ("mirror", "mirror.job", "--source a:1 --target b:1 --rename t=u --every 3", {"renamed": {"t": "u"}, "interval_s": 3.0}),
    ("replay", "replay.job", "--bootstrap-server a:1 --again --retry-s 5", {"is_again": True, "timeout_s": 5.0}),
    ("report", "report.job", "--bootstrap-server a:1 --json", {"has_summary": True, "bootstrap": "a:1"}),
    ("audit", "audit.job", "--tier a=h:1 --to-time 1970-01-02 --close-all", {"to_ms": 86_400_000, "is_all_closed": True}),
    ("audit", "audit.incremental", "--tier a=h:1 --incremental", {"from_ms": None, "bucket_s": 60}),
]


@pytest.mark.parametrize(("name", "job", "given", "wanted"), CASES)
def test_options_reach_the_job(name: str, job: str, given: str, wanted: dict[str, Any]) -> None:
    command = importlib.import_module(f"pybroker.cli.spark_{name}")
    seen: list[Any] = []

    @contextmanager
    def session(*_: Any) -> Iterator[None]:
        yield

    def run(_spark: None, options: Any, *_rest: Any) -> None:
        seen.append(options)
        raise KeyboardInterrupt

    module = importlib.import_module(f"pybroker.spark.{job}")
    with mock.patch.object(command, "job", session), mock.patch.object(module, "run", run):
        CliRunner().invoke(command.command, ["/somewhere", "--topic", "t", *given.split()])
    (options,) = seen
    assert options.topics == ("t",)
    assert {field: getattr(options, field) for field in wanted} == wanted
