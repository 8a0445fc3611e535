"""Values that properties take from files and from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.config.load import load
from pybroker.config.providers import resolved
from pybroker.config.setting import ConfigError

CLASSES = "org.apache.kafka.common.config.provider."
PROVIDERS = {
    "config.providers": "file, env,dir",
    "config.providers.file.class": CLASSES + "FileConfigProvider",
    "config.providers.env.class": CLASSES + "EnvVarConfigProvider",
    "config.providers.dir.class": "DirectoryConfigProvider",
}


def value(text: str, name: str = "ssl.key.password") -> tuple[str, str]:
    providers = {key: ("f", one) for key, one in PROVIDERS.items()}
    return resolved({name: ("f", text)}, providers)[name]


def test_values_come_from_files_and_variables_and_are_named_by_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secrets.properties"
    file.write_text("a=one\nb=two\n")
    (tmp_path / "c").write_text("three")
    monkeypatch.setenv("SECRET", "four")
    assert value(f"${{file:{file}:a}}") == (str(file), "one")
    assert value(f'x password="${{file:{file}:a}}-${{file:{file}:b}}";') == (str(file), 'x password="one-two";')
    assert value(f"${{dir:{tmp_path}:c}}") == (str(tmp_path / "c"), "three")
    assert value("${env:SECRET}") == value("${env::SECRET}") == ("SECRET", "four")
    assert value("${other:SECRET} ${SECRET}") == ("f", "${other:SECRET} ${SECRET}")


def test_without_providers_a_text_is_what_it_is() -> None:
    assert resolved({"a": ("f", "${env:HOME}")}, {}) == {"a": ("f", "${env:HOME}")}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("${file:/nowhere/x:a}", r"ssl\.key\.password=\$\{file:/nowhere/x:a\}: cannot be read: No such file or directory"),
        ("${env:NO_SUCH_VARIABLE}", r"ssl\.key\.password=\$\{env:NO_SUCH_VARIABLE\}: there is no NO_SUCH_VARIABLE"),
    ],
)
def test_a_value_that_is_not_there_is_refused(text: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        value(text)


def test_a_configuration_has_the_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACK", "r1")
    file = tmp_path / "server.properties"
    file.write_text("broker.rack=${env:RACK}\nconfig.providers=env\n")
    with pytest.raises(ConfigError, match=r"config\.providers\.env\.class=: must be one of org\.apache\.kafka"):
        load(file=file)
    file.write_text(file.read_text() + f"config.providers.env.class={CLASSES}EnvVarConfigProvider\n")
    loaded = load(file=file)
    assert (loaded.config.broker_rack, loaded.warnings, loaded.notices) == ("r1", (), ())
