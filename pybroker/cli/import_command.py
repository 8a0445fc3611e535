"""`pybroker import`: writes an export to a cluster."""

from __future__ import annotations

import time
from pathlib import Path

import click

from pybroker.cli.cluster_options import Where, cluster_options, examples


@click.command("import", epilog=examples("pybroker import ./backup --prefix copy-of-"))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--prefix", default="", help="Put this before the names of topics in the cluster.")
@click.option("--append", "is_appending", is_flag=True, help="Write also to topics that have records.")
@click.option("--no-groups", "is_without_groups", is_flag=True, help="Do not commit the offsets of groups.")
@cluster_options
def command(*, where: Where, folder: Path, prefix: str, is_appending: bool, is_without_groups: bool) -> None:
    """Write the export in FOLDER to a cluster, and create the topics that are missing.

    Records keep partition, timestamp, key and headers, and get new offsets; commits of groups move with the records.
    """
    from pybroker.spark.progress import Progress
    from pybroker.terminal.importing import Import
    from pybroker.terminal.numbers import counted
    from pybroker.terminal.wire import wire_client

    began = time.monotonic()
    with where.cluster() as cluster, wire_client(where.target) as client:
        run = Import(cluster, client, folder, prefix=prefix, is_appending=is_appending)
        try:
            with Progress("import", run.standing):
                manifest, count = run.run(has_groups=not is_without_groups)
        except OSError as error:
            raise click.ClickException(f"{error.filename or folder}: {error.strerror}") from error
    seconds = time.monotonic() - began
    groups = sorted({one["group"] for one in manifest.groups}) if not is_without_groups else []
    where.output.done(
        f"Imported {counted(count, 'record')} of {counted(len(manifest.topics), 'topic')} in {seconds:.1f} s"
        + (f", and the commits of {', '.join(groups)}" if groups else ""),
        records=count,
        topics=[prefix + name for name in manifest.topics],
        groups=groups,
        seconds=round(seconds, 3),
    )
