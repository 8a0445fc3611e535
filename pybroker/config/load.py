"""Reads a broker's configuration from all its sources.

These are, weakest first: the table's defaults, a properties file, `KAFKA_*` environment variables if the caller gives the
environment, the command line. If the default is null, an empty text counts as not set, and the next weaker source applies.

An unknown name is a warning, because a file written for another version must not keep a broker from starting. A bad value is
refused, because a broker that ignores a value that its user asked for does harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pybroker.config.broker import BrokerConfig
from pybroker.config.environment import ADVERTISED, ADVERTISED_LISTENERS, PREFIX, properties_of_environment, property_name
from pybroker.config.listener_settings import is_of_listener, is_password, names_of_no_listener
from pybroker.config.listeners import with_address
from pybroker.config.properties import PropertiesError, parse_properties
from pybroker.config.providers import KEY, resolved
from pybroker.config.setting import ConfigError, Effect, Value
from pybroker.config.table import BROKER_SETTINGS, family_of

if TYPE_CHECKING:
    from pathlib import Path

COMMAND_LINE: Final = "command line"

Texts = Mapping[str, tuple[str, str]]
"""For each property: where it was set, and its text."""


class ConfigFileError(Exception):
    """A properties file that cannot be read; the message names it."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Loaded:
    """A configuration, and the remarks about it for the operator, one line each.

    `secret_origins` is where passwords were set: a file, a variable, or the command line.
    """

    config: BrokerConfig
    warnings: tuple[str, ...]
    notices: tuple[str, ...]
    secret_origins: tuple[str, ...] = ()


def load(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
    host: str | None = None,
    port: int | None = None,
) -> Loaded:
    """Return the configuration from these sources; `host` and `port` replace those of the first listener.

    Raises ConfigFileError for a file that cannot be read, ConfigError for a value that cannot be used.
    """
    return load_texts(
        [
            {name: (COMMAND_LINE, text) for name, text in (overrides or {}).items()},
            properties_of_environment(environment or {}),
            texts_of_file(file) if file is not None else {},
        ],
        host=host,
        port=port,
    )


def ignored_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that would set known properties if `load` had the environment."""
    return [name for name in environment if name.startswith(PREFIX) and property_name(name) in BROKER_SETTINGS]


def load_texts(texts: Iterable[Texts], *, host: str | None = None, port: int | None = None) -> Loaded:
    """Return the configuration from these properties, strongest source first. Raises ConfigError."""
    sources = [_without_nulls(source) for source in texts]
    if KEY in (merged := merge(sources)):
        sources = [resolved(source, merged) for source in sources]
        merged = merge(sources)
    origins = {name: origin for name, (origin, _) in merged.items() if name in BROKER_SETTINGS}
    unread = {name: text for name, (_, text) in merged.items() if name not in BROKER_SETTINGS}
    layers = [_values(source) for source in sources]
    if host is not None or port is not None:
        layers.insert(0, {"listeners": _listeners_with(merged, host, port)})
    try:
        config = BrokerConfig(layers=tuple(layers), origins=origins, unread=unread)
    except ConfigError as error:
        raise _as_written(error, merged) from None
    warnings, notices = _remarks(merged, config, is_listener_set="listeners" in merged or host is not None)
    return Loaded(config=config, warnings=tuple(warnings), notices=tuple(notices), secret_origins=_secret_origins(merged))


def merge(texts: Iterable[Texts]) -> Texts:
    """Return the properties of all these sources, given strongest first, as a single source."""
    merged: dict[str, tuple[str, str]] = {}
    for source in reversed([_without_nulls(source) for source in texts]):
        merged.update(source)
    return merged


def read_properties(path: Path) -> dict[str, str]:
    """Return the entries of a .properties file, in UTF-8 or else Latin-1. Raises ConfigFileError."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigFileError(f"cannot read {path}: {error.strerror}") from error
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # Java reads every file as Latin-1
    try:
        return parse_properties(text)
    except PropertiesError as error:
        raise ConfigFileError(f"{path}: {error}") from error


def texts_of_file(path: Path) -> Texts:
    """Return the properties of a file. Raises ConfigFileError."""
    return {name: (str(path), text) for name, text in read_properties(path).items()}


def _without_nulls(source: Texts) -> Texts:
    return {
        name: (origin, text)
        for name, (origin, text) in source.items()
        if text.strip() or name not in BROKER_SETTINGS or BROKER_SETTINGS[name].default is not None
    }


def _values(source: Texts) -> dict[str, Value]:
    """Return the values of the known properties of a source, by attribute."""
    values: dict[str, Value] = {}
    for name, (origin, text) in source.items():
        setting = BROKER_SETTINGS.get(name)
        if setting is None:
            continue
        try:
            values[setting.attribute] = setting.parse(text)
        except ConfigError as error:
            raise _with_origin(error, origin) from None
    return values


def _with_origin(error: ConfigError, origin: str | None) -> ConfigError:
    if origin == ADVERTISED:  # a variable of pybroker's own, whose property its users do not know
        return ConfigError(ADVERTISED, error.value, error.reason)
    return error if origin is None else ConfigError(error.key, error.value, f"{error.reason} (from {origin})")


def _as_written(error: ConfigError, merged: Texts) -> ConfigError:
    """Return the error about the property that was written: listeners that are derived from the advertised ones are not."""
    origin, _ = merged.get(error.key, (None, ""))
    if error.key != "listeners" or origin is None or not origin.endswith(ADVERTISED_LISTENERS):
        return _with_origin(error, origin if error.key in BROKER_SETTINGS else None)
    key = "advertised.listeners"
    return ConfigError(key, merged[key][1], f"{error.reason} (from {origin}, because KAFKA_LISTENERS is not set)")


def _listeners_with(merged: Texts, host: str | None, port: int | None) -> str:
    def text(name: str) -> str:
        setting = BROKER_SETTINGS[name]
        return merged[name][1] if name in merged else setting.format(setting.default)

    controller_names = BROKER_SETTINGS["controller.listener.names"].parse(text("controller.listener.names"))
    assert controller_names is None or isinstance(controller_names, tuple)
    return with_address(text("listeners"), controller_names or (), host=host, port=port)


def _remarks(merged: Texts, config: BrokerConfig, *, is_listener_set: bool) -> tuple[list[str], list[str]]:
    unknown, later, never = [], [], []
    for name, (origin, _) in merged.items():
        setting = BROKER_SETTINGS.get(name)
        family = None if setting is not None else family_of(name)
        if is_of_listener(name):
            continue
        effect = setting.effect if setting is not None else family.effect if family is not None else None
        if effect is None:
            unknown.append(f"unknown property {name} (from {origin})")
        elif setting is not None and getattr(config, setting.attribute) == setting.default:
            continue
        elif effect is Effect.LATER:
            later.append(name)
        elif effect is Effect.NEVER:
            never.append(name)
    nowhere, listeners = names_of_no_listener(merged, config)
    no_listener = f"no such listener (there are {', '.join(listeners)}, in lower case)"
    warnings = [*unknown, *_line(no_listener, nowhere), *_line("without effect in this version", later)]
    if "advertised.listeners" in merged and not is_listener_set:
        default = BROKER_SETTINGS["listeners"].format(BROKER_SETTINGS["listeners"].default)
        warnings.append(f"advertised.listeners is set and listeners is not: only clients of this machine reach {default}")
    return warnings, _line("accepted and ignored", never)


def _secret_origins(merged: Texts) -> tuple[str, ...]:
    return tuple(dict.fromkeys(origin for name, (origin, _) in merged.items() if is_password(name)))


def _line(remark: str, names: Iterable[str]) -> list[str]:
    joined = ", ".join(names)
    return [f"{remark}: {joined}"] if joined else []
