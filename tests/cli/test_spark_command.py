from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pybroker.cli.main import RunError, cli
from pybroker.cli.spark_generate import start_ms
from pybroker.spark.isolation import Isolation


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["spark", *arguments])


def test_the_jobs_are_listed_and_nothing_of_spark_is_imported() -> None:
    show = "cli.main(['spark', '--help'], standalone_mode=False)"
    script = f"import sys; from pybroker.cli.main import cli; {show}; print(sorted(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    for job in ("archive", "doctor", "generate", "replay"):
        assert f"\n  {job} " in shown
    assert "'click'" in shown
    assert not any(f"'{module}'" in shown for module in ("pyspark", "pyarrow", "confluent_kafka", "pybroker.spark"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "No such command 'nothing'"),
        (["doctor", "--conf", "novalue"], "--conf novalue: must be NAME=VALUE"),
        (["archive", "lake"], "--bootstrap-server is needed"),
        (["archive", "lake", "--bootstrap-server", "x:1"], "give either --topic or --pattern"),
        (
            ["archive", "lake", "--isolation-level", "serializable"],
            "'serializable' is not one of 'read_committed', 'read_uncommitted'",
        ),
        (
            ["generate", "--bootstrap-server", "x:1", "--topic", "t", "--count", "1", "--start", "soon"],
            "'soon' is not a time such as",
        ),
        (["replay", "lake"], "Missing option '--bootstrap-server'"),
    ],
)
def test_a_wrong_command_line_is_reported(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize("level", [None, *Isolation])
@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("archive", ("--bootstrap-server", "x:1", "--topic", "t")),
        ("audit", ("--tier", "cluster=x:1", "--topic", "t")),
    ],
)
def test_the_isolation_level_reaches_the_job(
    module: str, arguments: tuple[str, ...], level: Isolation | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Isolation] = []

    def job(_spark: object, options: Any) -> None:
        seen.append(options.isolation)
        raise RunError("enough")

    monkeypatch.setattr(f"pybroker.cli.spark_{module}.job", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(f"pybroker.spark.{module}.job.run", job)
    result = run(module, "folder", *arguments, *(() if level is None else ("--isolation-level", level.value)))
    assert result.output == "Error: enough\n"
    assert seen == [level or Isolation.READ_COMMITTED]


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.version", None)
    result = run("generate", "--bootstrap-server", "x:1", "--topic", "t", "--count", "1")
    assert result.exit_code == 1
    assert result.output == "Error: pyspark.version is missing: pip install '.[spark]' in a clone of pybroker\n"


def test_missing_jars_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, attributes in (("pyspark.version", {"__version__": "4.2.0"}), ("pyarrow", {})):
        module = type(sys)(name)
        for attribute, value in attributes.items():
            setattr(module, attribute, value)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "pyspark", type(sys)("pyspark"))
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = run("archive", "lake", "--bootstrap-server", "x:1", "--topic", "t", "--jars", str(tmp_path))
    assert result.exit_code == 1
    assert (
        result.output
        == f"Error: {tmp_path}: no spark-sql-kafka-0-10_*.jar in it; the jars of Spark's Kafka connector are missing\n"
    )


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("1970-01-01T00:00:01", 1000), ("1970-01-01T01:00:00+01:00", 0), ("2026-11-21", 1_795_219_200_000)],
)
def test_times(text: str, milliseconds: int) -> None:
    assert start_ms(text) == milliseconds


def test_no_time() -> None:
    assert start_ms(None) is None
