"""`pybroker leave`: gives the log directories of this broker to an Apache Kafka in KRaft mode."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pybroker.cli.adopt_command import load_owned
from pybroker.cli.directories_command import filesystem_of_disk, refusals, with_store, with_store_as_it_lies
from pybroker.cli.start import env_option, override_option

if TYPE_CHECKING:
    from pybroker.adoption.leaving import Departure
    from pybroker.config.broker import BrokerConfig
    from pybroker.metadata.store.base import Store

_RELEASES = ("3.9", "4.0", "4.1", "4.2", "4.3")


@click.command("leave", short_help="Give the directories back to an Apache Kafka.")
@click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--release-version",
    "release",
    type=click.Choice(_RELEASES),
    default=_RELEASES[0],
    show_default=True,
    help="The oldest release of Kafka that is to read the metadata.",
)
@click.option("--dry-run", is_flag=True, help="Change nothing; print what Kafka would get.")
@click.option("--config", metavar="FILE", type=click.Path(path_type=Path), help="The properties file of this broker's start.")
@override_option
@env_option
def command(
    *, directories: tuple[Path, ...], release: str, dry_run: bool, config: Path | None, overrides: tuple[str, ...], env: bool
) -> None:
    """Write the metadata of a KRaft Kafka, 3.9 or newer, into the log directories DIR of this broker, which must be stopped.

    Kafka, as broker and controller in one node, then serves the same topics, with their ids, settings, records and committed
    offsets. Metadata of an earlier Kafka is kept aside. The last step retires this broker's metadata store: run a command again
    that was cut short. 'pybroker adopt' is the way back.
    """
    with refusals():
        _run(load_owned(directories, config, overrides, env=env), release, is_dry=dry_run)


def _run(config: BrokerConfig, release: str, *, is_dry: bool) -> None:
    from pybroker.adoption import leaving, lost_metadata
    from pybroker.clock import SystemClock

    with lost_metadata.locked(config, filesystem_of_disk(), is_dry=is_dry) as directories:

        async def work(store: Store) -> Departure:
            return await leaving.leave(store, config, directories, release=release, clock=SystemClock(), is_dry=is_dry)

        departure = with_store_as_it_lies(config, work) if is_dry else with_store(config, work, is_made=False)
    _print_report(config, departure, release, is_dry=is_dry)


def _print_report(config: BrokerConfig, departure: Departure, release: str, *, is_dry: bool) -> None:
    from pybroker.model import topic_id_text

    topics = departure.image.topics
    for name, topic in sorted(topics.items()):
        configs = " ".join(f"{key}={value}" for key, value in sorted(topic.configs.items()))
        shown = f" {configs}" if configs else ""
        click.echo(f"{name}: id={topic_id_text(topic.topic_id)} partitions={len(topic.partitions)}{shown}")
    for path in departure.kept_aside:
        click.echo(f"The metadata of an earlier Kafka is kept in {path}")
    for note in departure.notes:
        click.echo(f"Note: {note}")
    done = "would be given back; nothing was changed" if is_dry else "given back"
    click.echo(
        f"{len(topics)} topics {done}; Kafka {release} or newer reads them (metadata.version has the level "
        f"{departure.metadata_version}); the next producer id is {departure.next_producer_id}"
    )
    click.echo("Start Kafka with these properties; the port of the controller is free to choose:")
    for line in (
        "process.roles=broker,controller",
        f"node.id={config.node_id}",
        f"controller.quorum.voters={config.node_id}@localhost:9093",
        f"log.dirs={','.join(config.log_dirs)}",
        f"metadata.log.dir={departure.metadata_log_dir}",
    ):
        click.echo(f"    {line}")
