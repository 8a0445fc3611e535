"""The commands of docs/security.md, from certificates to ACLs, with a container of namespaces in place of the compose file's."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from testing.hosts.toy_container import Container, toy_container
from testing.places import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text()
SECTION = PAGE.partition("\n## From nothing to SASL_SSL with ACLs\n")[2].partition("\n## ")[0]
COMMANDS = [shlex.split(line) for line in re.findall(r"^    (\S.*)$", SECTION, re.MULTILINE)]
SERVICE = yaml.safe_load((ROOT / "docker-compose.security.yml").read_text())["services"]["kafka"]
SECRETS = "/etc/kafka/secrets"


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    certificates, *_ = COMMANDS
    assert certificates[:3] == ["pybroker", "certs", "certs"]
    subprocess.run([sys.executable, "-m", *certificates], cwd=tmp_path, stdout=subprocess.DEVNULL, check=True, timeout=60)
    (tmp_path / "container").mkdir()
    with toy_container(tmp_path / "container", tmp_path / "certs") as made:
        for volume in SERVICE["volumes"]:
            source, target, *_ = volume.split(":")
            if target.startswith(SECRETS):
                file = made.seen(target)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes((tmp_path / source).read_bytes())
                file.chmod(0o644)  # the engine's container has the user whom the file belongs to
        yield made


def environment() -> dict[str, str]:
    """Return the variables as compose makes them, without one set outside."""
    unset = re.compile(r"\$\{\w+:-([^}]*)\}")
    return {name: unset.sub(r"\1", str(text)).replace("$$", "$") for name, text in SERVICE["environment"].items()}


def test_the_commands_of_the_page_do_what_it_has(container: Container, tmp_path: Path) -> None:
    _, up, create, allow, produce, consume, down = COMMANDS
    assert up[:5] == ["KAFKA_UID=$(id", "-u)", "docker", "compose", "-f"]
    assert up[5] == down[3] == "docker-compose.security.yml"
    broker = container.broker(environment())
    broker.wait_for("READY .*")
    healthy = ["/usr/local/bin/python3" if Path("/usr/local/bin/python3").exists() else "python3", "-I", "-S"]
    assert container.run([*healthy, str(ROOT / "container/healthcheck.py")]) == (0, "", "")

    def run(words: list[str], given: str = "") -> tuple[int, str, str]:
        assert words[:2] == ["pybroker", "tool"], words
        line = shlex.join(word.replace("certs/", f"{tmp_path}/certs/") for word in words)
        return container.run(["sh", "-c", f"{given}{line}"], user=0)

    assert produce[:3] == ["echo", "one", "|"]
    assert run(create)[0] == 0
    refused = run(produce[3:], "echo none | ")
    assert refused[0] == 1, refused
    for words, given in ((allow, ""), (produce[3:], "echo one | ")):
        code, _, error = run(words, given)
        assert code == 0, error
    code, output, error = run(consume)
    assert (code, output) == (0, "one\n"), error
    passwords = re.findall(r"password=([^\]]+)\]", (tmp_path / "certs/users.properties").read_text())
    assert len(passwords) == 2
    assert not any(password in broker.errors for password in passwords)
    broker.stop()
