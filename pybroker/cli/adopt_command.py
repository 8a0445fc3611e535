"""`pybroker adopt`: takes over the log directories of an Apache Kafka, or of this broker when its metadata is lost."""

from __future__ import annotations

import shlex
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.directories_command import filesystem_of_disk, load_config, refusals, with_store, with_store_as_it_lies
from pybroker.cli.main import ConfigurationError
from pybroker.cli.start import env_option, override_option

if TYPE_CHECKING:
    from pybroker.adoption.from_kafka import Adoption, Plan
    from pybroker.config.broker import BrokerConfig
    from pybroker.metadata.store.base import Store


@click.command("adopt", short_help="Take over directories of Kafka, or rebuild lost metadata.")
@click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--configs",
    "configs_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Settings of topics: the output of 'kafka-configs --describe --entity-type topics', or JSON by topic.",
)
@click.option("--dry-run", is_flag=True, help="Change nothing; print what would be adopted.")
@click.option("--partial", is_flag=True, help="Adopt one broker of several; create partitions that are not in DIR, empty.")
@click.option("--config", metavar="FILE", type=click.Path(path_type=Path), help="The properties file of the broker's start.")
@override_option
@env_option
def command(
    *,
    directories: tuple[Path, ...],
    configs_file: Path | None,
    dry_run: bool,
    partial: bool,
    config: Path | None,
    overrides: tuple[str, ...],
    env: bool,
) -> None:
    """Take over the log directories DIR of a stopped Apache Kafka, or rebuild lost metadata of this broker.

    Topics, ids, partitions and settings come from KRaft's metadata if it is in a DIR; otherwise from the names of the directories
    and from --configs. Logs, checkpoints and committed offsets stay as they are, and the command converts messages of formats 0
    and 1. It writes the metadata last, so you can run a command again that was cut short.
    """
    with refusals():
        loaded = load_owned(directories, config, overrides, env=env)
        configs = _read_configs(configs_file)
        if _run(loaded, configs, is_dry=dry_run, is_partial=partial):
            click.echo(_start_line(loaded, config, overrides, env=env))


def load_owned(directories: tuple[Path, ...], config: Path | None, overrides: tuple[str, ...], *, env: bool) -> BrokerConfig:
    """Load the configuration; the broker's number is the one that owns the directories. Raises ConfigurationError."""
    from pybroker.log.checkpoints import checkpoint

    owned = []
    for directory in directories:
        try:
            properties = checkpoint.read_meta_properties(filesystem_of_disk(), str(directory))
        except checkpoint.CorruptCheckpointError:
            continue  # what locks the directories reports it
        if properties is not None:
            owned.append(f"node.id={properties.node_id}")
    paths = ",".join(str(path.absolute()) for path in directories)
    return load_config(config, paths, (*overrides, *owned[:1]), env=env)


def _read_configs(file: Path | None) -> dict[str, dict[str, str]]:
    from pybroker.adoption import topic_configs_file

    if file is None:
        return {}
    try:
        return topic_configs_file.parse(file.read_text())
    except (topic_configs_file.ConfigsFileError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: {error}") from error


def _run(config: BrokerConfig, configs: dict[str, dict[str, str]], *, is_dry: bool, is_partial: bool) -> bool:
    """Adopt, and print the report. Returns False if the directories were ours and only their formats changed."""
    from pybroker.adoption import from_kafka, lost_metadata

    with lost_metadata.locked(config, filesystem_of_disk(), is_dry=is_dry) as directories:

        def prepare(store: Store) -> Coroutine[Any, Any, Adoption]:
            return from_kafka.prepare(store, config, directories, configs, is_partial=is_partial)

        prepared = with_store_as_it_lies(config, prepare)
        if not is_dry:
            with_store(config, lambda store: from_kafka.carry_out(store, config, prepared))
    for path in prepared.old_files:
        click.echo(f"{path}: {'would be ' if is_dry else ''}converted to format 2")
    if prepared.plan is None:
        _print_notes(prepared)
        return False
    _print_report(config, prepared, prepared.plan, is_dry=is_dry)
    return True


def _print_notes(prepared: Adoption) -> None:
    for note in prepared.notes:
        click.echo(f"Note: {note}")


def _print_report(config: BrokerConfig, prepared: Adoption, plan: Plan, *, is_dry: bool) -> None:
    from pybroker.adoption.from_kafka import defaults_line
    from pybroker.model import topic_id_text

    found = prepared.found
    for topic in plan.topics:
        changed = " ".join(f"{name}={value}" for name, value in sorted(topic.configs.items()))
        is_named = bool(found.topics.get(topic.name) and found.topics[topic.name].ids) or plan.has_kraft
        named = topic_id_text(topic.topic_id) if is_named else "new"
        click.echo(f"{topic.name}: id={named} partitions={len(topic.partitions)}{f' {changed}' if changed else ''}")
    click.echo(defaults_line(config, plan.topics))
    _print_notes(prepared)
    done = "would be adopted; nothing was changed" if is_dry else "adopted"
    click.echo(
        f"{len(plan.topics)} topics {done}; the next producer id is {found.largest_producer_id + 1}, "
        f"the next leader epoch {found.largest_epoch + 1}"
    )


def _start_line(loaded: BrokerConfig, config: Path | None, overrides: tuple[str, ...], *, env: bool) -> str:
    """Return the command that starts the broker with the configuration that the adoption had."""
    own = (f"node.id={loaded.node_id}", f"log.dirs={','.join(loaded.log_dirs)}")  # last, because the last one wins
    words = ["pybroker", "start", *((str(config.absolute()),) if config else ()), *(("--env",) if env else ())]
    for override in (*overrides, *own):
        words += ["--override", override]
    return f"Start with: {shlex.join(words)}"
