"""`pybroker spark archive`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pybroker.cli.spark_options import SparkOptions, check_topics, isolation_option, job, spark_options


@click.command("archive", short_help="Copy new records of topics to Parquet files.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--bootstrap-server", "bootstrap", metavar="HOST:PORT", help="The cluster to read from.")
@click.option("--topic", "topics", multiple=True, help="Topic to archive; may be repeated.")
@click.option("--pattern", help="All topics whose whole name matches this regular expression, instead of --topic.")
@click.option(
    "--every", "interval_s", type=click.FloatRange(min=0), metavar="SECONDS", help="Repeat every SECONDS until interrupted."
)
@click.option(
    "--batch-records", default=1_000_000, show_default=True, type=click.IntRange(min=1), help="Maximum records in a batch."
)
@click.option(
    "--compact-after",
    default=64,
    show_default=True,
    help="Join small files at the end and whenever there are this many; 0 means never.",
)
@click.option(
    "--file-mb",
    "file_bytes",
    default=128,
    show_default=True,
    type=click.IntRange(min=1),
    callback=lambda _context, _option, mb: mb << 20,
    help="Size in MB up to which files are joined.",
)
@click.option(
    "--allow-loss", "is_loss_allowed", is_flag=True, help="Continue when records were deleted before they were archived."
)
@click.option("--retry-s", default=60.0, show_default=True, help="Seconds to wait for a cluster that went away.")
@isolation_option
@click.option("--verify", is_flag=True, help="Compare all files with the manifest instead of archiving.")
@spark_options
def command(*, where: SparkOptions, path: Path, verify: bool, **options: Any) -> None:
    """Copy the records that are new in topics to Parquet files under PATH, each record exactly once."""
    if verify:
        from pybroker.spark.archive import verify as verification

        with job("archive", where) as spark:
            found = verification.verify(spark, path)
        click.echo(f"{found.records:,} records in {found.files:,} files match the manifest")
        return
    if options["bootstrap"] is None:
        raise click.UsageError("--bootstrap-server is needed")
    check_topics(options)
    from pybroker.spark.archive import job as archive

    with job("archive", where) as spark:
        result = archive.run(spark, archive.ArchiveOptions(path=path, **options))
    lost = f"; {result.lost:,} were deleted before they could be archived" if result.lost else ""
    click.echo(f"{result.records:,} records archived in {result.seconds:.1f} s, {result.files:,} files in all{lost}")
