"""`pybroker export`: writes topics to a folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pybroker.cli.cluster_options import Where, cluster_options, examples
from pybroker.cli.completing import topic_names
from pybroker.cli.consume_command import place_option

if TYPE_CHECKING:
    from pybroker.terminal.places import Place


@click.command("export", epilog=examples("pybroker export ./backup orders --format batches"))
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("topics", metavar="[TOPIC]...", nargs=-1, shell_complete=topic_names)
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "batches"]),
    default="jsonl",
    show_default=True,
    help="Write lines of JSON; or batches as they lie in the log, which is faster and smaller.",
)
@place_option("--from", "begin", help_text="Where to begin: beginning, an offset, -N (the last N), 10m (ago), a time (UTC).")
@place_option("--until", "end", help_text="End before this place; by default, at the end of now.")
@cluster_options
def command(*, where: Where, folder: Path, topics: tuple[str, ...], form: str, begin: Place | None, end: Place | None) -> None:
    """Write topics to FOLDER: committed records with offsets, timestamps and headers, settings, and commits of groups.

    TOPIC may be a pattern, such as 'order*'. Without TOPIC, the command exports all topics but the internal ones. `pybroker
    import` writes the folder to a cluster, and `pybroker log dump` prints its batches.
    """
    from pybroker.spark.progress import Progress
    from pybroker.terminal.exporting import Export
    from pybroker.terminal.numbers import counted
    from pybroker.terminal.wire import wire_client

    began = time.monotonic()
    with where.cluster() as cluster, wire_client(where.target) as client:
        run = Export(cluster, client, folder, form)
        try:
            with Progress("export", run.standing):
                manifest = run.run(topics, begin, end)
        except OSError as error:
            raise click.ClickException(f"{error.filename or folder}: {error.strerror}") from error
    size, seconds = run.standing().size or 0, time.monotonic() - began
    where.output.done(
        f"Exported {counted(manifest.records, 'record')} of {counted(len(manifest.topics), 'topic')} to {folder}, "
        f"{size / 1e6:,.1f} MB in {seconds:.1f} s",
        records=manifest.records,
        topics=list(manifest.topics),
        groups=len({one["group"] for one in manifest.groups}),
        bytes=size,
        seconds=round(seconds, 3),
    )
