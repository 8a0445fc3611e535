"""`pybroker produce`: writes records to a topic."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.cluster_options import Where, cluster_options, examples
from pybroker.cli.completing import topic_names

if TYPE_CHECKING:
    from pybroker.terminal.formats import Given
    from pybroker.terminal.writing import Writer, Written

ACKS = {"all": -1, "1": 1, "0": 0}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@click.command(
    "produce",
    epilog=examples(
        "echo hello | pybroker produce greetings",
        "pybroker produce orders 'one coffee' --key table-1 --header source=shell",
        "printf 'tea:2\\nmilk:NULL\\n' | pybroker produce menu --separator : --null NULL",
    ),
)
@click.argument("topic", shell_complete=topic_names)
@click.argument("values", metavar="[VALUE]...", nargs=-1)
@click.option("--file", "file", type=click.Path(path_type=Path), help="Read records from this file instead of standard input.")
@click.option(
    "--format", "form", type=click.Choice(["lines", "json"]), default="lines", show_default=True, help="The form of each line."
)
@click.option("-k", "--key", help="The key of all records.")
@click.option(
    "--separator", metavar="TEXT", help="Take the key from the line: what stands before this text, such as ':' or '\\t'."
)
@click.option("--delimiter", default="\\n", show_default=True, metavar="TEXT", help="What ends a line.")
@click.option(
    "--null",
    metavar="TEXT",
    help="Write null for a key or a value that is just this text. A record whose value is null is a tombstone.",
)
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of all records; may be repeated.")
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(min=0),
    help="Write to this partition. By default, the key decides; batches without keys go to random partitions.",
)
@click.option("--timestamp", metavar="TIME", help="The timestamp of all records: a time (UTC), ms since 1970, or 10m (ago).")
@click.option("-z", "--compression", type=click.Choice(CODECS), default="none", show_default=True, help="The codec of batches.")
@click.option(
    "--acks",
    type=click.Choice(list(ACKS)),
    default="all",
    show_default=True,
    help="Wait for all replicas in sync, for the leader (1), or for none (0).",
)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Write this many records per second.")
@click.option("--transactional-id", metavar="ID", help="Write all records in one transaction of this id.")
@click.option("--abort", "is_aborted", is_flag=True, help="Abort the transaction at the end, to test readers.")
@cluster_options
def command(
    *, where: Where, topic: str, values: tuple[str, ...], file: Path | None, transactional_id: str | None, is_aborted: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Write records to a topic: each VALUE, or each line of a file or of standard input.

    With --format json, a line is an object as `pybroker consume --json` prints it; its offset has no effect. A topic that does
    not exist is created if the broker's auto.create.topics.enable allows that.
    """
    if is_aborted and transactional_id is None:
        raise click.UsageError("--abort needs --transactional-id")
    if values and file is not None:
        raise click.UsageError("give VALUE or --file, not both")
    if transactional_id is not None and options["acks"] != "all":
        raise click.UsageError("a transaction needs --acks all")
    from pybroker.records.compression import CompressionType
    from pybroker.terminal.session import EXPECTED
    from pybroker.terminal.transaction import Transaction
    from pybroker.terminal.wire import wire_client
    from pybroker.terminal.writing import Writer

    timeout_ms = 60_000
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(_rounds(values, file, options))
        client = stack.enter_context(wire_client(where.target))
        transaction = None
        if transactional_id is not None:
            transaction = Transaction(stack.enter_context(where.cluster()), transactional_id, timeout_ms)
        codec = CompressionType[options["compression"].upper()]
        writer = Writer(client, topic, acks=ACKS[options["acks"]], codec=codec, transaction=transaction)
        try:
            written = _write(writer, source, options["rate"])
        except BaseException as error:
            if transaction is not None:
                with contextlib.suppress(Exception):  # the first error is reported, and the timeout ends the transaction
                    transaction.end(committed=False)
            elif isinstance(error, EXPECTED) and writer.count:
                raise _with_count(error, where, writer.count) from error
            raise
        if transaction is not None:
            transaction.end(committed=not is_aborted)
    _report(where, topic, written, is_aborted=is_aborted)


def _write(writer: Writer, source: Iterator[Iterable[Given]], rate: float | None) -> list[Written]:
    """Write the records of each round when it is there, as many in a second as `rate` allows; and those before a wrong line."""
    from pybroker.terminal.session import FailedError

    written: list[Written] = []
    began, count = time.monotonic(), 0
    try:
        for records in source:
            for record in records:
                if rate is not None:
                    ahead_s = count / rate - (time.monotonic() - began)
                    if ahead_s > 0:
                        written += writer.flush()
                        time.sleep(ahead_s)
                written += writer.add(record)
                count += 1
            written += writer.flush()
    except FailedError:
        writer.flush()
        raise
    return written


def _with_count(error: Exception, where: Where, count: int) -> Exception:
    """Return an error that also names how many records were written before it."""
    from pybroker.terminal.numbers import counted
    from pybroker.terminal.session import FailedError, failed

    text = str(failed(error, where.target.bootstrap)).rstrip(".")
    were = "was" if count == 1 else "were"
    return FailedError(f"{text}{'' if text.endswith('?') else ';'} {counted(count, 'record')} {were} written before")


@contextlib.contextmanager
def _rounds(values: tuple[str, ...], file: Path | None, options: dict[str, Any]) -> Iterator[Iterator[Iterable[Given]]]:
    """Open the source of records, and yield an iterator of what is there at a time; each line is parsed when it is its turn."""
    import sys

    from pybroker.terminal.escapes import unescaped
    from pybroker.terminal.lines import rounds

    parse = _parser(options)
    if values:
        yield iter([[parse(value.encode(errors="surrogateescape"), f"value {number}") for number, value in enumerate(values, 1)]])
        return

    def parsed(stream: Any) -> Iterator[Iterable[Given]]:
        numbers = itertools.count(1)
        for lines in rounds(stream, unescaped(options["delimiter"])):
            numbered = zip(lines, numbers)  # noqa: B905  the numbers have no end
            yield (parse(line, f"line {number}") for line, number in numbered if line or options["form"] == "lines")

    try:
        with file.open("rb") if file is not None else contextlib.nullcontext(sys.stdin.buffer) as stream:
            yield parsed(stream)
    except OSError as error:
        if file is None or error.filename != str(file):
            raise
        raise click.ClickException(f"{file}: {error.strerror}") from error


def _parser(options: dict[str, Any]) -> Any:
    """Return a function that parses a line, with the options as defaults. Raises UsageError."""
    from pybroker.terminal.escapes import unescaped
    from pybroker.terminal.formats import of_json, of_line
    from pybroker.terminal.numbers import time_ms

    given: dict[str, Any] = {}
    if options["key"] is not None:
        given["key"] = options["key"].encode()
    if options["partition"] is not None:
        given["partition"] = options["partition"]
    if options["timestamp"] is not None:
        given["timestamp_ms"] = time_ms(options["timestamp"])
        if given["timestamp_ms"] is None:
            raise click.UsageError(f"--timestamp {options['timestamp']}: must be a time, ms since 1970, or a span such as 10m")
    headers = []
    for text in options["headers"]:
        name, separator, value = text.partition("=")
        if not separator:
            raise click.UsageError(f"--header {text}: must be NAME=VALUE")
        headers.append((name, value.encode()))
    if options["separator"] is not None and (options["key"] is not None or options["form"] == "json"):
        raise click.UsageError("--separator takes the key from the line: give no --key, and no --format json")
    separator_bytes = None if options["separator"] is None else unescaped(options["separator"])
    null = None if options["null"] is None else options["null"].encode()

    def parse(line: bytes, where: str) -> Given:
        if options["form"] == "json":
            record = of_json(line, where)
        else:
            record = of_line(line, where, key_separator=separator_bytes, null=null)
        return record._replace(headers=(*record.headers, *headers), **given)

    return parse


def _report(where: Where, topic: str, written: list[Written], *, is_aborted: bool) -> None:
    from pybroker.terminal.numbers import counted

    by_partition: dict[int, list[Written]] = {}
    for one in written:
        by_partition.setdefault(one.partition, []).append(one)
    for index, parts in sorted(by_partition.items()):
        count = sum(one.records for one in parts)
        has_offsets = all(one.first >= 0 for one in parts)
        first = min(one.first for one in parts) if has_offsets else None
        last = max(one.first + one.records - 1 for one in parts) if has_offsets else None
        at = "" if first is None else f", offset {first}" if first == last else f", offsets {first} to {last}"
        what = f"{'Aborted' if is_aborted else 'Wrote'} {counted(count, 'record')} to {topic}-{index}{at}"
        where.output.done(what, topic=topic, partition=index, records=count, first=first, last=last, aborted=is_aborted)
