"""The command that a name means, and the scripts that call the commands."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pybroker.tools.install import install, script
from pybroker.tools.run import ALL, COMMANDS, OTHERS, run


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for spelling in (name, f"{name}.sh", f"/opt/kafka/bin/{name}.sh"):
        assert run(spelling, ["--help"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err
    assert all(len(line) <= 130 for line in err.splitlines())


@pytest.mark.parametrize("name", [*OTHERS, "", "kafka-nonsense"])
def test_what_is_not_here_is_one_short_line_and_exit_code_2(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(name, ["--list"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{name or 'a command without a name'} is not supported")
    assert len(line) <= 240
    instead = OTHERS.get(name)
    assert line.endswith(f": {instead}" if instead else "; there are " + ALL)


def test_the_commands_are_named_as_a_shell_writes_them() -> None:
    assert ALL.startswith("kafka-{acls,broker-api-versions,cluster,")
    assert ALL.endswith("topics}, cub, ub")


@pytest.mark.parametrize("name", ["kafka-server-stop", "zookeeper-shell", "kafka-metadata-quorum", "connect-distributed"])
def test_what_other_images_have_is_found_with_and_without_suffix(name: str, tmp_path: Path) -> None:
    assert {name, f"{name}.sh"} <= set(install(tmp_path))


def test_a_script_for_each_spelling(tmp_path: Path) -> None:
    names = install(tmp_path / "bin")
    assert sorted(path.name for path in (tmp_path / "bin").iterdir()) == sorted(names)
    assert {"kafka-topics", "kafka-topics.sh", "kafka-acls.sh", "cub"} <= set(names)
    assert "cub.sh" not in names
    found = tmp_path / "bin" / "kafka-topics.sh"
    assert found.stat().st_mode & 0o777 == 0o755
    assert found.read_text() == script("kafka-topics")
    assert install(tmp_path / "bin") == names  # once more, over its own


def test_a_script_quotes_what_it_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/a path/python")
    first, second = script("cub").splitlines()
    assert first == "#!/bin/sh"
    assert second.startswith("exec '/a path/python' -I -S ")
    assert second.endswith('tools/__main__.py cub "$@"')
