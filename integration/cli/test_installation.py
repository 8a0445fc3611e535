"""A source distribution is complete, a wheel of it runs, and without native parts one line of the broker's log warns of that."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from pybroker.native import PARTS
from testing.places import ROOT
from testing.process.broker import is_kafka
from testing.waiting import LONG_WAIT_S, WAIT_S, line_of

pytestmark = pytest.mark.skipif(is_kafka(), reason="about our own distribution")

SOURCES = {".py", ".pyx", ".pxd", ".pxi", ".h", ".typed", ".properties"}
BUILD = "import sys; from setuptools.build_meta import {0}; {0}(sys.argv[1])"


def build(kind: str, source: Path, target: Path, **environment: str) -> Path:
    """Build a distribution as pip does, and return its file."""
    command = [sys.executable, "-c", BUILD.format(kind), str(target)]
    done = subprocess.run(
        command, cwd=source, env={**os.environ, **environment}, capture_output=True, text=True, timeout=LONG_WAIT_S, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (file,) = target.iterdir()
    return file


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that a source distribution of this checkout contains."""
    clone, dist, unpacked = (tmp_path_factory.mktemp(name) for name in ("clone", "dist", "unpacked"))
    for name in ("benchmarks", "config", "docs", "pybroker", "tests"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy2(file, clone)
    with tarfile.open(build("build_sdist", clone, dist)) as archive:
        archive.extractall(unpacked, filter="data")
    (folder,) = unpacked.iterdir()
    return folder


def test_a_source_distribution_has_what_builds_and_what_a_person_reads(source: Path) -> None:
    wanted = {path for path in (ROOT / "pybroker").rglob("*.*") if path.suffix in SOURCES} | set((ROOT / "docs").rglob("*.md"))
    wanted |= set((ROOT / "pybroker" / "web" / "static").iterdir()) | set((ROOT / "docs" / "images").iterdir())
    names = {str(path.relative_to(ROOT)) for path in wanted}
    names |= {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "benchmarks/README.md", "config/server.properties"}
    names |= {"Makefile", "pyproject.toml", "setup.py", "pybroker/api/releases.json"}
    there = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    assert names - there == set()
    strays = {name for name in there - names if not name.startswith("pybroker.egg-info/")}
    assert strays - {"config/logging.properties", "MANIFEST.in", "PKG-INFO", "setup.cfg"} == set()


def test_a_wheel_that_was_built_without_a_compiler_runs_and_warns_in_one_line(source: Path, tmp_path: Path) -> None:
    (tmp_path / "wheel").mkdir()
    with zipfile.ZipFile(build("build_wheel", source, tmp_path / "wheel", CC="false")) as wheel:
        wheel.extractall(tmp_path / "site")
    log = tmp_path / "log"
    command = [sys.executable, "-m", "pybroker", "start", "--port", "0", "--data-dir", str(tmp_path / "data")]
    with log.open("wb") as errors:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "PYBROKER_PURE": "0"}
        broker = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert broker.stdout is not None
    try:
        assert line_of(broker.stdout, "a ready broker").startswith("READY "), log.read_text()
    finally:
        broker.send_signal(signal.SIGTERM)
        broker.communicate(timeout=WAIT_S)
    assert broker.returncode == 0
    warnings = [line for line in log.read_text().splitlines() if "level=warning" in line]
    assert len(warnings) == 1
    assert f"Native: none of {len(PARTS)} parts were built, so small requests cost" in warnings[0]
    assert "Install a C compiler" in warnings[0]
