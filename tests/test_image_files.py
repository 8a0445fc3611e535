"""Checks what the image is made of, as far as that can be seen without an engine: health check, pinned dependencies, labels."""

from __future__ import annotations

import importlib.util
import re
import struct
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import pybroker
from pybroker.broker.lifecycle import NO_ROOM
from pybroker.broker.ready_file import ReadyFile

ROOT = Path(pybroker.__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()
LOCKS = sorted((ROOT / "container").glob("requirements*.txt"))


@pytest.fixture(scope="module")
def healthcheck() -> ModuleType:
    spec = importlib.util.spec_from_file_location("healthcheck", ROOT / "container/healthcheck.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def response(healthcheck: ModuleType, *, correlation_id: int | None = None, error_code: int = 0, count: int = 2) -> bytes:
    correlation_id = healthcheck.CORRELATION_ID if correlation_id is None else correlation_id
    return struct.pack(">ihi", correlation_id, error_code, count) + bytes(6 * 2)


def test_a_sound_response_is_a_healthy_broker(healthcheck: ModuleType) -> None:
    assert healthcheck.complaint(response(healthcheck)) is None


@pytest.mark.parametrize("length", range(10 + 6 * 2))
def test_a_response_that_is_cut_is_none(healthcheck: ModuleType, length: int) -> None:
    assert healthcheck.complaint(response(healthcheck)[:length]) is not None


def test_what_is_wrong_with_a_response_is_printed(healthcheck: ModuleType) -> None:
    assert "correlation id 7" in healthcheck.complaint(response(healthcheck, correlation_id=7))
    assert "error code 35" in healthcheck.complaint(response(healthcheck, error_code=35))
    assert "counts 3 APIs" in healthcheck.complaint(response(healthcheck, count=3))
    assert "counts 0 APIs" in healthcheck.complaint(response(healthcheck, count=0)[:10])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "not ready yet"),
        ("", "should say HOST PORT"),
        ("127.0.0.1", "should say"),
        ("a b c", "should say"),
        ("é 1", "should say"),
    ],
)
def test_no_broker_is_asked_before_its_address_is_known(
    healthcheck: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, expected: str
) -> None:
    ready_file = tmp_path / "ready"
    monkeypatch.setenv("PYBROKER_READY_FILE", str(ready_file))
    if content is not None:
        ready_file.write_text(content)
    assert expected in healthcheck.main()


def test_the_brokers_own_reason_is_what_the_check_prints(
    healthcheck: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYBROKER_READY_FILE", str(tmp_path / "ready"))
    ReadyFile(tmp_path / "ready").forget(NO_ROOM)
    assert healthcheck.main() == NO_ROOM
    (tmp_path / "ready.reason").write_text("")
    assert "not ready yet" in healthcheck.main()


def pinned(lock: Path) -> dict[str, str]:
    """Return each requirement of a lock file with the lines of its hashes."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==[^\n]*((?:\n +--hash=\S+(?: \\)?)*)", lock.read_text(), re.MULTILINE)
    return {name.lower(): hashes for name, hashes in found}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_all_that_the_images_install_is_pinned_with_its_hashes(lock: Path) -> None:
    lines = [line for line in lock.read_text().splitlines() if line and not line.startswith(("#", " "))]
    assert lines
    assert len(pinned(lock)) == len(lines)
    assert all("--hash=sha256:" in hashes for hashes in pinned(lock).values())


def test_all_that_the_broker_needs_is_pinned() -> None:
    wanted = PROJECT["project"]["dependencies"] + PROJECT["project"]["optional-dependencies"]["console"]
    names = {re.split(r"[<>=\[; ]", requirement, maxsplit=1)[0].lower() for requirement in wanted}
    assert names - pinned(ROOT / "container/requirements.txt").keys() == set(), "make container-lock"


def test_everything_is_installed_by_its_hash() -> None:
    installs = re.findall(r"pip(?: --python \S+)? (?:install|wheel) ([^&\n]*(?:\\\n[^&\n]*)*)", DOCKERFILE)
    assert len(installs) > 4
    for options in installs:
        assert "--require-hashes" in options or "--no-index" in options or " . " in options, options


def test_the_label_has_the_version() -> None:
    version = PROJECT["project"]["version"]
    assert f'org.opencontainers.image.version="{version}"' in DOCKERFILE
    assert pybroker.__version__ == version


def test_the_image_compiles_from_all_native_sources() -> None:
    kept = set(re.findall(r"! -name '\*(\.\w+)'", DOCKERFILE))
    page = {".css", ".html", ".js", ".svg"}
    elsewhere = {".py", ".pyc", ".pyi", ".typed", ".json", ".properties", ".c", ".so", *page}
    found = {path.suffix for path in (ROOT / "pybroker").rglob("*.*") if path.is_file()}
    assert kept == found - elsewhere
    assert {".pyx", ".pxd"} <= kept
