from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from pybroker.spark import connector
from pybroker.spark.errors import PipelineError

CONTENT = b"a jar"
ARTIFACT = connector.Artifact("org.example", "thing", "1.0", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a repository of files with the jar of the one artifact, and return the jar."""
    monkeypatch.setattr(connector, "ARTIFACTS", (ARTIFACT,))
    monkeypatch.setenv("PYBROKER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYBROKER_MAVEN_URL", (tmp_path / "maven").as_uri() + "/")
    monkeypatch.delenv("PYBROKER_SPARK_JARS", raising=False)
    jar = tmp_path / "maven" / "org" / "example" / "thing" / "1.0" / "thing-1.0.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(CONTENT)
    return jar


def test_jars_are_downloaded_once(repository: Path) -> None:
    [jar] = connector.connector_jars()
    assert (jar.name, jar.read_bytes()) == ("thing-1.0.jar", CONTENT)
    repository.unlink()
    assert connector.connector_jars() == [jar]
    assert [path.name for path in jar.parent.iterdir()] == ["thing-1.0.jar"]


def test_a_damaged_jar_is_downloaded_again(repository: Path) -> None:
    [jar] = connector.connector_jars()
    jar.write_bytes(b"half")
    connector.connector_jars()
    assert jar.read_bytes() == CONTENT


def test_another_content_is_refused(repository: Path) -> None:
    repository.write_bytes(b"another jar")
    with pytest.raises(
        PipelineError, match=r"cannot download thing-1\.0\.jar from file:.*: " r"the downloaded file has another checksum"
    ):
        connector.connector_jars()


def test_a_missing_jar_is_one_line(repository: Path) -> None:
    repository.unlink()
    with pytest.raises(PipelineError, match=r"cannot download thing-1\.0\.jar .*--jars to a folder") as caught:
        connector.connector_jars()
    assert "\n" not in str(caught.value)


def test_an_invalid_url_is_refused(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYBROKER_MAVEN_URL", "central")
    with pytest.raises(PipelineError, match="PYBROKER_MAVEN_URL is 'central', which is not a URL"):
        connector.connector_jars()


def test_a_folder_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("spark-sql-kafka-0-10_2.13-4.2.0.jar", "other.jar", "notes.txt"):
        (tmp_path / name).touch()
    jars = ["other.jar", "spark-sql-kafka-0-10_2.13-4.2.0.jar"]
    assert [jar.name for jar in connector.connector_jars(tmp_path)] == jars
    monkeypatch.setenv("PYBROKER_SPARK_JARS", str(tmp_path))
    assert [jar.name for jar in connector.connector_jars()] == jars


def test_a_folder_without_the_connector_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"no spark-sql-kafka-0-10_\*\.jar in it"):
        connector.connector_jars(tmp_path)
    with pytest.raises(PipelineError, match="no such directory"):
        connector.connector_jars(tmp_path / "nowhere")
