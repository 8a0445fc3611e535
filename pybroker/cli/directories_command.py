"""`pybroker directories`: which log directories a broker has used, and what to do when one of them, or the metadata, is lost."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pybroker.cli.lazy_group import HelpfulGroup
from pybroker.cli.main import ConfigurationError, RunError
from pybroker.cli.private_files import keep_private
from pybroker.cli.start import controllers_of, env_option, load_configuration, override_option, properties_of

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig
    from pybroker.log.directories.claims import KnownDirectory
    from pybroker.log.files.filesystem import Filesystem
    from pybroker.metadata.store.base import Store

Result = TypeVar("Result")
of_several_option = click.option(
    "--broker",
    type=click.IntRange(1),
    metavar="N",
    help="Broker N of 'pybroker start --brokers'.",
)
_HEADINGS: Final = ("ID", "PATH", "STATE", "LOGS")


@click.group("directories", cls=HelpfulGroup, short_help="Manage missing log directories and lost metadata.")
def command() -> None:
    """Manage log directories that are missing, and metadata that was lost. The broker must be stopped."""


def _of_broker(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that identify the broker, those of `pybroker start`; the command gets the configuration in `loaded`."""

    def command(*, config: Path | None, data_dir: str | None, overrides: tuple[str, ...], env: bool, **others: Any) -> None:
        function(loaded=load_config(config, data_dir, overrides, env=env), **others)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        env_option,
        override_option,
        click.option("--data-dir", metavar="DIR", help="The data directory; the same as --override log.dirs=DIR."),
        click.argument("config", required=False, type=click.Path(path_type=Path)),
    ):
        command = option(command)
    return command


@command.command("list", short_help="Print the directories that the broker has used.")
@of_several_option
@_of_broker
def list_(*, broker: int | None, loaded: BrokerConfig) -> None:
    """Print the directories that the broker has used, each as present, missing, away or forgotten, and the new ones."""
    from pybroker.adoption.known_directories import described

    config = of_several(loaded, broker)
    rows = with_any_store(config, lambda store: described(store, config, filesystem_of_disk()))
    widths = [max(len(row[column]) for row in (_HEADINGS, *rows)) for column in range(len(_HEADINGS))]
    for row in (_HEADINGS, *rows):
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


@command.command("forget", short_help="Give up a directory whose disk is lost for good.")
@click.argument("directory_id", metavar="ID")
@of_several_option
@_of_broker
def forget(*, directory_id: str, broker: int | None, loaded: BrokerConfig) -> None:
    """Give up the directory ID, whose disk is lost for good. The next start creates its partitions again, empty, or copies them
    from other brokers.
    """
    from pybroker.adoption import known_directories

    config = of_several(loaded, broker)
    try:
        forgotten: KnownDirectory = with_any_store(
            config, lambda store: known_directories.forget(store, config, filesystem_of_disk(), directory_id)
        )
    except known_directories.ForgetError as error:
        raise RunError(str(error)) from error
    what = "the next start creates its partitions again, empty, or copies them from other brokers"
    click.echo(f"{forgotten.directory_id} ({forgotten.path}) is forgotten; {what}")


@command.command("adopt", short_help="Rebuild lost metadata from this broker's logs.")
@click.option("--allow-missing", is_flag=True, help="Create partitions that are in no directory, empty.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting for all topics; may be repeated.")
@_of_broker
def adopt(*, allow_missing: bool, settings: tuple[str, ...], loaded: BrokerConfig) -> None:
    """Rebuild lost metadata from the logs in the directories of this broker. For those of an Apache Kafka use 'pybroker adopt'.

    Topics get the broker's default settings and those of --set. Retention works from the start on: if a topic was kept longer
    than the defaults keep it, use --set retention.ms=-1 and set the topic's own value afterwards.
    """
    from pybroker.adoption import lost_metadata
    from pybroker.broker.old_data import use_adopt, why_not_by_names
    from pybroker.config.setting import ConfigError
    from pybroker.config.topic import TopicConfig

    wanted = properties_of(settings, "--set")
    try:
        TopicConfig.resolve(loaded, wanted)
    except ConfigError as error:
        raise ConfigurationError(str(error)) from error
    with refusals(), lost_metadata.locked(loaded, filesystem_of_disk()) as directories:
        reason = with_store(loaded, lambda store: why_not_by_names(store, loaded, filesystem_of_disk()), is_made=False)
        if reason is not None:
            raise RunError(reason)
        found = lost_metadata.survey(directories)
        if found.old_formats:
            raise RunError(use_adopt(loaded.log_dirs, f"{found.old_formats[0].directory} has messages of format 0 or 1"))
        topics = lost_metadata.topics_of(found, loaded, wanted, are_gaps_allowed=allow_missing)
        with_store(loaded, lambda store: lost_metadata.adopt(store, loaded, found, topics))
    for topic in topics:
        changed = " ".join(f"{name}={value}" for name, value in sorted(topic.configs.items()))
        click.echo(f"{topic.name}: partitions={len(topic.partitions)}{f', {changed}' if changed else ''}")
    click.echo(
        f"{len(topics)} topics adopted; the next producer id is {found.largest_producer_id + 1}, "
        f"the next leader epoch {found.largest_epoch + 1}"
    )


@command.command("set-aside", short_help="Rename all logs, so that the broker starts without topics.")
@_of_broker
def set_aside(*, loaded: BrokerConfig) -> None:
    """Give every log a name that ends in -stray, so that the broker starts without topics.

    The command removes no file that holds records.
    """
    from pybroker.adoption import lost_metadata
    from pybroker.broker.old_data import sqlite_path

    with refusals(), lost_metadata.locked(loaded, filesystem_of_disk()) as directories:
        if sqlite_path(loaded) is None:
            kept = asyncio.run(lost_metadata.set_aside(None, loaded, directories))
        else:
            kept = with_store(loaded, lambda store: lost_metadata.set_aside(store, loaded, directories))
    for path in kept:
        click.echo(path)
    click.echo(f"Logs set aside: {len(kept)}")


# --- what the commands share ---


@contextmanager
def refusals() -> Iterator[None]:
    """Turn an error of the commands into one line for a person."""
    from pybroker.adoption.lost_metadata import AdoptionError

    try:
        yield
    except AdoptionError as error:
        raise RunError(str(error)) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(reason if error.filename is None else f"{error.filename}: {reason}") from error


def filesystem_of_disk() -> Filesystem:
    """Return the file system of the machine."""
    from pybroker.log.files.filesystem import Filesystem

    return Filesystem()


def load_config(file: Path | None, data_dir: str | None, overrides: Sequence[str], *, env: bool) -> BrokerConfig:
    """Load the broker's configuration from where `pybroker start` takes it, and keep what is made for its directories private.

    Raises ConfigurationError.
    """
    keep_private()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from pybroker.cli.logging_setup import set_up_logging

    properties = properties_of(overrides, "--override")
    if data_dir is not None:
        properties["log.dirs"] = data_dir
    set_up_logging({}, ["WARNING"], None)
    return load_configuration(file, properties, env=env).config


def of_several(config: BrokerConfig, number: int | None) -> BrokerConfig:
    """Return the configuration of broker `number` of several of one machine, made from that of all; the same for None. Raises
    RunError.
    """
    from pybroker.broker.old_data import sqlite_path
    from pybroker.broker.several.settings import brokers_in, directories_of

    numbers = sorted({one for path in config.log_dirs for one in brokers_in(path)})
    if number is None and numbers:
        raise RunError(f"{', '.join(config.log_dirs)} has the data of {len(numbers)} brokers: name one of them by --broker")
    if number is None:
        return config
    if number not in numbers:
        raise RunError(f"{', '.join(config.log_dirs)} has no data of broker {number}, but of {numbers or 'none'}")
    path = sqlite_path(config)
    store = config.metadata_store if path is None else f"sqlite:{path}"
    return config.model_copy(update={"node_id": number, "log_dirs": directories_of(config, number), "metadata_store": store})


def with_any_store(config: BrokerConfig, work: Callable[[Store], Coroutine[Any, Any, Result]]) -> Result:
    """Return the result of `work` on the broker's store, which may be one that other brokers use meanwhile. A store in a file is
    locked, and not created.

    Raises RunError and ConfigurationError.
    """
    from pybroker.metadata.store import open_store
    from pybroker.metadata.store.base import StoreError

    quorum = controllers_of(config)
    url = config.metadata_store if quorum is None else quorum.metadata_store
    if not url.startswith("etcd:"):
        return with_store(config, work, is_made=False)

    async def run() -> Result:
        store = open_store(url, config=config)
        try:
            return await work(store)
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except StoreError as error:
        raise RunError(str(error)) from error


def _store_path(config: BrokerConfig) -> Path:
    """Return the file of the metadata store. Raises RunError if there is none."""
    from pybroker.broker.old_data import MEMORY, sqlite_path

    path = sqlite_path(config)
    if path is None:
        raise RunError(
            "metadata.store=memory: keeps no directories and no topics between two runs, so there is nothing to work on"
            if config.metadata_store == MEMORY
            else f"metadata.store={config.metadata_store} is no file; this command works on a metadata store in a file"
        )
    return Path(path)


def with_store(config: BrokerConfig, work: Callable[[Store], Coroutine[Any, Any, Result]], *, is_made: bool = True) -> Result:
    """Return the result of `work` on the broker's store, which is locked meanwhile. Without `is_made`, a missing store is not
    created.

    Raises RunError.
    """
    from pybroker.metadata.store import open_store
    from pybroker.metadata.store.base import StoreError

    path = _store_path(config)
    url = f"sqlite:{path}" if is_made or path.exists() else "memory:"

    async def run() -> Result:
        store = open_store(url)
        try:
            return await work(store)
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except StoreError as error:
        raise RunError(f"{error}; stop the broker first" if "in use" in str(error) else str(error)) from error


def with_store_as_it_lies(config: BrokerConfig, work: Callable[[Store], Coroutine[Any, Any, Result]]) -> Result:
    """Return the result of `work` on a copy of the broker's store. No file is changed or locked.

    Raises RunError.
    """
    from pybroker.metadata.store.base import StoreError
    from pybroker.metadata.store.memory import MemoryStore
    from pybroker.metadata.store.sqlite import stored_entries

    path = _store_path(config)
    try:
        entries = stored_entries(path) if path.exists() else []
        return asyncio.run(work(MemoryStore(entries, max((entry.revision for entry in entries), default=0))))
    except StoreError as error:
        raise RunError(str(error)) from error
