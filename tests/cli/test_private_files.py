"""A command writes files for its user only, whatever the umask is, and secrets that everyone can read are named."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pybroker.cli.private_files import keep_private, warning
from pybroker.config.load import load


@pytest.mark.parametrize(("before", "mode"), [(0o000, 0o600), (0o022, 0o600), (0o277, 0o400)])
def test_what_is_made_is_its_users_only(tmp_path: Path, restored: None, before: int, mode: int) -> None:
    os.umask(before)
    keep_private()
    (tmp_path / "file").touch(0o666)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """Return a folder that every user of the machine reaches, as far as this test knows."""
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            if folder.owner() != tmp_path.owner():
                pytest.skip(f"others do not reach {folder}")
            folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
    return tmp_path


def test_secrets_that_everyone_can_read_are_one_line_without_them(open_folder: Path) -> None:
    file, keys, metadata = (open_folder / name for name in ("server.properties", "broker.pem", "metadata.sqlite"))
    file.write_text(
        f"log.dirs={open_folder}\nlistener.name.a.ssl.keystore.location={keys}\n"
        "listener.name.a.plain.sasl.jaas.config=org.apache.X required user_a=hush;"
    )
    keys.touch()
    metadata.touch()
    loaded = load(file=file)
    for path in (file, keys, metadata):
        path.chmod(0o644)
    line = warning(loaded)
    assert line is not None
    assert line.endswith(f"chmod o= {file} {keys} {metadata}")
    assert "hush" not in line
    for path in (file, keys):
        path.chmod(0o640)
    assert (warning(loaded) or "").endswith(f"chmod o= {metadata}")
    open_folder.chmod(0o700)
    assert warning(loaded) is None


def test_a_file_without_passwords_is_no_secret(open_folder: Path) -> None:
    file = open_folder / "server.properties"
    file.write_text(f"log.dirs={open_folder}\nlisteners=PLAINTEXT://:9092\n")
    file.chmod(0o644)
    assert warning(load(file=file)) is None
    assert warning(load(file=file, overrides={"pybroker.admin.token": "secret"})) is None
