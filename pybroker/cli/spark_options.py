"""The parts that all commands of `pybroker spark` have in common: the options of Spark, and how a failure is reported."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pybroker.cli.main import RunError
from pybroker.cli.start import properties_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pybroker.spark.isolation import Isolation

_TIME: Final = click.DateTime(["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"])

INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, the same as a shell's."""


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where and how Spark runs."""

    master: str
    jars: Path | None
    conf: dict[str, str]


def spark_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --master, --jars and --conf to a command, which receives them in its argument `where`."""

    def command(*, master: str, jars: Path | None, conf: tuple[str, ...], **others: Any) -> Any:
        return function(where=SparkOptions(master, jars, properties_of(conf, "--conf")), **others)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        click.option("--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark; may be repeated."),
        click.option("--jars", type=click.Path(path_type=Path), help="A folder with the jars of Spark's Kafka connector."),
        click.option("--master", default="local[*]", show_default=True, help="Where Spark runs: local[N] or spark://HOST:PORT."),
    ):
        command = option(command)
    return command


def pair(option: str, text: str, form: str = "NAME=VALUE") -> tuple[str, str]:
    """Parse the value of an option that has this form. Raises UsageError."""
    name, separator, value = text.partition("=")
    if not separator or not name or not value:
        raise click.UsageError(f"{option} {text}: must be {form}")
    return name, value


def check_topics(options: Mapping[str, Any]) -> None:
    """Raise UsageError unless there is one of the options --topic and --pattern."""
    if bool(options["topics"]) == (options["pattern"] is not None):
        raise click.UsageError("give either --topic or --pattern")


def time_option(*names: str, help_text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an option with a time in UTC, which the command gets in ms since 1970, or None."""

    def in_ms(_context: click.Context, _option: click.Parameter, time: dt.datetime | None) -> int | None:
        return None if time is None else int(time.replace(tzinfo=dt.UTC).timestamp() * 1000)

    return click.option(*names, type=_TIME, metavar="TIME", help=help_text, callback=in_ms)


def isolation_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --isolation-level to a command, which receives it in its argument `isolation`."""
    return click.option(
        "--isolation-level",
        "isolation",
        type=click.Choice(["read_committed", "read_uncommitted"]),
        default="read_committed",
        show_default=True,
        help="read_uncommitted reads the records of open and aborted transactions, too.",
        callback=_isolation,
    )(function)


def _isolation(_context: click.Context, _option: click.Parameter, name: str) -> Isolation:
    from pybroker.spark.isolation import Isolation

    return Isolation(name)


@contextmanager
def failures_in_one_line(name: str) -> Iterator[None]:
    """Report an exception of the block in one line on stderr and exit with code 1, after Ctrl-C with 130."""
    from pybroker.spark.errors import PipelineError
    from pybroker.spark.explain import explain

    try:
        yield
    except PipelineError as error:
        raise RunError(str(error)) from error
    except KeyboardInterrupt as error:
        click.echo(f"{name}: stopped; run the same command again to continue", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from error
    except (click.exceptions.ClickException, click.exceptions.Exit):
        raise
    except Exception as error:
        raise RunError(explain(error)) from error


@contextmanager
def job(name: str, where: SparkOptions) -> Iterator[SparkSession]:
    """Open a Spark session for one job, report its failure in one line, and stop the session at the end."""
    from pybroker.spark.session import spark_session

    with failures_in_one_line(name):
        spark = spark_session(f"pybroker {name}", master=where.master, jars=where.jars, conf=where.conf)
        try:
            yield spark
        finally:
            spark.stop()
