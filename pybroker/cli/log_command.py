"""`pybroker log`: prints the files of a log, and finds what is wrong in them, without a broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pybroker.cli.lazy_group import HelpfulGroup
from pybroker.cli.main import ConfigurationError, RunError
from pybroker.model import Offset

if TYPE_CHECKING:
    from pybroker.inspection.findings import Info, Problem

_PATHS: Final = click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
_JSON: Final = click.option("--json", "is_json", is_flag=True, help="Print one JSON object for each line.")


@click.group("log", cls=HelpfulGroup, short_help="Print or check the files of a log.")
def command() -> None:
    """Print or check the files of a log, of pybroker or of Apache Kafka 0.8 to 4.x.

    PATH is a file (.log, .index, .timeindex, .txnindex, .snapshot, a checkpoint), a partition's directory, or a whole data
    directory. The commands change no file, and the broker may run.
    """


@command.command("dump", short_help="Print the batches and entries in the files.")
@_PATHS
@_JSON
@click.option("--records", "has_records", is_flag=True, help="Print the records of each batch, with keys, values and headers.")
@click.option(
    "--decode",
    "decoder",
    type=click.Choice(["auto", "offsets", "transactions", "metadata"]),
    help="Print the records, decoded as those of __consumer_offsets, __transaction_state or __cluster_metadata; "
    "auto decides by the name of the directory.",
)
@click.option("--first-offset", type=click.IntRange(min=0), default=0, help="Leave out batches that end before this offset.")
@click.option(
    "--last-offset", type=click.IntRange(min=0), default=2**63 - 1, help="Leave out batches that begin after this offset."
)
def dump(
    *, paths: tuple[Path, ...], is_json: bool, has_records: bool, decoder: str | None, first_offset: int, last_offset: int
) -> None:
    """Print the batches of data files, and the entries of the files beside them."""
    from pybroker.inspection.dump import Choice, objects_in
    from pybroker.inspection.lines import line_of

    choice = Choice(
        has_records=has_records or decoder is not None,
        decoder=decoder,
        first_offset=Offset(first_offset),
        last_offset=Offset(last_offset),
    )
    with _refusals():
        for path in paths:
            file: object = None
            for fields in objects_in(path, choice):
                if is_json:
                    file = fields.get("file", file)
                    click.echo(json.dumps({**fields, "file": file}))
                else:
                    click.echo(line_of(fields))


@command.command("verify")
@_PATHS
@_JSON
@click.option(
    "--compacted/--not-compacted",
    "is_compacted",
    default=None,
    help="Whether the topics are compacted, so that offsets may be missing. By default, verify finds out for each topic.",
)
@click.pass_context
def verify(context: click.Context, *, paths: tuple[Path, ...], is_json: bool, is_compacted: bool | None) -> None:
    """Check the files, and report each problem with its place.

    The exit code is 1 if there is a problem. The last line shows what was checked.
    """
    from pybroker.inspection.findings import Findings
    from pybroker.inspection.verify import verify as check

    def emit(found: Problem | Info) -> None:
        click.echo(json.dumps(found.as_json()) if is_json else found.line())

    findings = Findings(emit)
    with _refusals():
        for path in paths:
            check(findings, path, may_have_gaps=is_compacted)
    click.echo(json.dumps(findings.as_json()) if is_json else findings.summary())
    if findings.problem_count:
        context.exit(RunError.exit_code)


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn an error of the commands into one line for a person."""
    from pybroker.inspection.places import UnknownPlaceError

    try:
        yield
    except UnknownPlaceError as error:
        raise ConfigurationError(str(error)) from error
    except OSError as error:
        if error.filename is None:
            raise
        raise RunError(f"{error.filename}: {error.strerror}") from error
