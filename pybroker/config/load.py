"""Reading a broker's configuration from all its sources.

Weakest first: the table's defaults, a properties file, `KAFKA_*` environment variables, the command line. An unknown name is a warning,
because a file written for another version must not keep a broker from starting; a bad value is a refusal, because a broker that
ignores what was asked for does harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pybroker.config.broker import BrokerConfig
from pybroker.config.environment import properties_of_environment
from pybroker.config.listeners import with_port
from pybroker.config.properties import PropertiesError, parse_properties
from pybroker.config.setting import ConfigError, Effect, Value
from pybroker.config.table import BROKER_SETTINGS, family_of

COMMAND_LINE: Final = "command line"

Texts = Mapping[str, tuple[str, str]]
"""Of each property: where it was set, and its text."""


class ConfigFileError(Exception):
    """The properties file cannot be read; the message names it."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Loaded:
    """A configuration and what to tell the operator about it, one line each."""

    config: BrokerConfig
    warnings: tuple[str, ...]
    notices: tuple[str, ...]


def load(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
    port: int | None = None,
) -> Loaded:
    """The configuration from these sources; `port` replaces the port of the first listener.

    Raises ConfigFileError for a file that cannot be read, ConfigError for a value that cannot be used.
    """
    sources: list[Texts] = [
        {name: (COMMAND_LINE, text) for name, text in (overrides or {}).items()},
        properties_of_environment(environment or {}),
        _of_file(file) if file is not None else {},
    ]
    merged: dict[str, tuple[str, str]] = {}
    for source in reversed(sources):
        merged.update(source)
    origins = {name: origin for name, (origin, _) in merged.items() if name in BROKER_SETTINGS}
    layers = [_values(source) for source in sources]
    if port is not None:
        layers.insert(0, {"listeners": _listeners_with(merged, port)})
    try:
        config = BrokerConfig(layers=tuple(layers), origins=origins)
    except ConfigError as error:
        raise _with_origin(error, origins.get(error.key)) from None
    warnings, notices = _remarks(merged, config)
    return Loaded(config=config, warnings=tuple(warnings), notices=tuple(notices))


def _of_file(path: Path) -> Texts:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigFileError(f"cannot read {path}: {error.strerror}") from error
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # what Java takes every file for
    try:
        return {name: (str(path), value) for name, value in parse_properties(text).items()}
    except PropertiesError as error:
        raise ConfigFileError(f"{path}: {error}") from error


def _values(source: Texts) -> dict[str, Value]:
    """The values of the known properties of a source, by attribute. A null leaves the word to the next weaker source."""
    values: dict[str, Value] = {}
    for name, (origin, text) in source.items():
        setting = BROKER_SETTINGS.get(name)
        if setting is None:
            continue
        try:
            value = setting.parse(text)
        except ConfigError as error:
            raise _with_origin(error, origin) from None
        if value is not None:
            values[setting.attribute] = value
    return values


def _with_origin(error: ConfigError, origin: str | None) -> ConfigError:
    return error if origin is None else ConfigError(error.key, error.value, f"{error.reason} (from {origin})")


def _listeners_with(merged: Texts, port: int) -> str:
    def text(name: str) -> str:
        setting = BROKER_SETTINGS[name]
        return merged[name][1] if name in merged else setting.format(setting.default)

    controller_names = BROKER_SETTINGS["controller.listener.names"].parse(text("controller.listener.names"))
    assert controller_names is None or isinstance(controller_names, tuple)
    return with_port(text("listeners"), controller_names or (), port)


def _remarks(merged: Texts, config: BrokerConfig) -> tuple[list[str], list[str]]:
    unknown, later, never = [], [], []
    for name, (origin, _) in merged.items():
        setting = BROKER_SETTINGS.get(name)
        family = None if setting is not None else family_of(name)
        effect = setting.effect if setting is not None else family.effect if family is not None else None
        if effect is None:
            unknown.append(f"unknown property {name} (from {origin})")
        elif setting is not None and getattr(config, setting.attribute) == setting.default:
            continue
        elif effect is Effect.LATER:
            later.append(name)
        elif effect is Effect.NEVER:
            never.append(name)
    warnings = [*unknown, *_line("without effect in this version", later)]
    dropped = [f"listener {name} is left out: controller.listener.names names it" for name in config.dropped_listeners]
    return warnings, [*_line("accepted and ignored", never), *dropped]


def _line(remark: str, names: Iterable[str]) -> list[str]:
    joined = ", ".join(names)
    return [f"{remark}: {joined}"] if joined else []
