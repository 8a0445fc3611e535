"""Which cluster a command means: the options come before the variables, and these before the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.terminal.profiles import target_of
from pybroker.tools.errors import CommandError

FILE = """
default = "here"

[here]
bootstrap.servers = "here:1"

[there]
bootstrap.servers = "there:2"
request.timeout.ms = 7
"client.id" = "quoted"
some.flag = true
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "pybroker").mkdir()
    (tmp_path / "pybroker" / "profiles.toml").write_text(FILE)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_without_anything_a_broker_of_this_machine_is_meant(tmp_path: Path) -> None:
    assert target_of({"HOME": str(tmp_path)}).bootstrap == "localhost:9092"
    assert target_of({"HOME": str(tmp_path), "PYBROKER_BOOTSTRAP": "a:1"}).bootstrap == "a:1"


def test_the_first_that_names_a_cluster_decides(environment: dict[str, str]) -> None:
    assert target_of(environment).bootstrap == "here:1"
    variables = {**environment, "PYBROKER_PROFILE": "there"}
    assert target_of(variables).bootstrap == "there:2"
    assert target_of({**variables, "PYBROKER_BOOTSTRAP": "b:3"}).bootstrap == "b:3"
    assert target_of({**variables, "PYBROKER_BOOTSTRAP": "b:3"}, profile="here").bootstrap == "here:1"
    both = target_of(environment, bootstrap="c:4", profile="there")
    assert (both.bootstrap, both.properties["client.id"]) == ("c:4", "quoted")


def test_an_address_alone_gets_no_settings_of_a_profile(environment: dict[str, str]) -> None:
    assert "client.id" not in target_of({**environment, "PYBROKER_PROFILE": "there"}, bootstrap="c:4").properties


def test_settings_have_kafkas_names_and_texts(environment: dict[str, str]) -> None:
    properties = target_of(environment, profile="there").properties
    assert (properties["request.timeout.ms"], properties["some.flag"]) == ("7", "true")
    assert target_of(environment, profile="there", timeout_s=2.5).properties["request.timeout.ms"] == "2500"


def test_a_properties_file_comes_over_the_profile(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=mine\nbootstrap.servers=d:5\n")
    target = target_of(environment, profile="there", command_config=str(file))
    assert (target.bootstrap, target.properties["client.id"], target.properties["request.timeout.ms"]) == ("d:5", "mine", "7")


@pytest.mark.parametrize(
    ("content", "profile", "message"),
    [
        (None, "there", "profile there: there is no file "),
        (FILE, "nowhere", " has no profile nowhere: it has here, there"),
        ("[x", None, "profiles.toml: Expected"),
        (None, None, "PYBROKER_PROFILES: there is no file .*profiles.toml"),
        ("[x]\nclient.id = 'a'", "x", "profiles.toml: profile x has no bootstrap.servers"),
        ("default = 'x'\n[x]\nclient.id = 'a'", None, "profiles.toml: profile x has no bootstrap.servers"),
        ("[x]\nbootstrap.servers = 'a:1,b'", "x", "profiles.toml: profile x: bootstrap.servers: b: must be HOST:PORT"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, content: str | None, profile: str | None, message: str) -> None:
    file = tmp_path / "profiles.toml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(CommandError, match=message) as refused:
        target_of({"PYBROKER_PROFILES": str(file)}, profile=profile)
    assert refused.value.code == 2


@pytest.mark.parametrize("address", ["127.0.0.1", "here:port", "here:0", "a:1,b", ""])
def test_an_address_has_a_port(address: str) -> None:
    wrong = address.rsplit(",", 1)[-1] or "''"
    with pytest.raises(CommandError) as refused:
        target_of({}, bootstrap=address)
    assert (str(refused.value), refused.value.code) == (f"{wrong}: must be HOST:PORT", 2)
    if address:
        with pytest.raises(CommandError, match=f"^PYBROKER_BOOTSTRAP: {wrong}: must be HOST:PORT$"):
            target_of({"PYBROKER_BOOTSTRAP": address})


def test_a_properties_file_may_have_the_address_that_a_profile_lacks(tmp_path: Path) -> None:
    profiles, file = tmp_path / "profiles.toml", tmp_path / "client.properties"
    profiles.write_text("default = 'x'\n[x]\nclient.id = 'a'\n")
    file.write_text("bootstrap.servers=d:5\n")
    assert target_of({"PYBROKER_PROFILES": str(profiles)}, command_config=str(file)).bootstrap == "d:5"
