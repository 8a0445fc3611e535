"""`pybroker consume`: prints the records of topics."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.cluster_options import Where, cluster_options, examples
from pybroker.cli.completing import group_names, topic_names

if TYPE_CHECKING:
    from pybroker.terminal.places import Place

FORMATS = ("value", "key-value", "json", "none")


def place_option(*names: str, help_text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return an option that is a place in partitions."""

    def parsed(_context: click.Context, _option: click.Parameter, text: str | None) -> Place | None:
        from pybroker.terminal.places import place

        if text is None:
            return None
        found = place(text)
        if found is None:
            raise click.BadParameter(f"{text!r} is not beginning, end, an offset, -N, a span such as 10m, or a time (UTC)")
        return found

    return click.option(*names, metavar="PLACE", help=help_text, callback=parsed)


@click.command(
    "consume",
    epilog=examples(
        "pybroker consume orders --from -10",
        "pybroker consume orders --from 1h --until 10m --json",
        "pybroker consume orders --group kitchen --count 1",
    ),
)
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, shell_complete=topic_names)
@click.option("-f", "--follow", is_flag=True, help="Wait for more records at the end, until Ctrl-C.")
@place_option("--from", "begin", help_text="Where to begin: beginning, end, an offset, -N (the last N), 10m (ago), a time (UTC).")
@place_option("--until", "end", help_text="End before this place; by default, at the end of now. It is written as with --from.")
@click.option("-n", "--count", type=click.IntRange(min=0), help="End after this many records.")
@click.option(
    "-p", "--partition", "numbers", multiple=True, type=click.IntRange(min=0), help="Read only this partition; may be repeated."
)
@click.option("-g", "--group", help="Read as a member of this group, and commit what was printed.", shell_complete=group_names)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="value", show_default=True, help="What to print of a record."
)
@click.option("--separator", default="\\t", show_default=True, help="With --format key-value: what stands between key and value.")
@click.option("--null", default="", metavar="TEXT", help="Print this text for a key or a value that is null; nothing by default.")
@click.option("--uncommitted", is_flag=True, help="Print the records of open and aborted transactions, too.")
@cluster_options
def command(
    *,
    where: Where,
    topics: tuple[str, ...],
    follow: bool,
    begin: Place | None,
    end: Place | None,
    count: int | None,
    numbers: tuple[int, ...],
    group: str | None,
    form: str,
    separator: str,
    null: str,
    uncommitted: bool,
) -> None:
    """Print the records of topics: those that are there, and with --follow those that come.

    The command creates no topic. With --group, it begins at the offsets that the group has committed, where there are any.
    """
    if follow and end is not None:
        raise click.UsageError("--follow has no end: give --follow or --until")
    if group is not None and numbers:
        raise click.UsageError("the group assigns partitions to its members: give --group or --partition")
    from pybroker.terminal.consuming import Choice, Consuming
    from pybroker.terminal.escapes import unescaped
    from pybroker.terminal.wire import wire_client

    choice = Choice(
        topics=topics,
        numbers=numbers,
        begin=begin,
        end=end,
        is_following=follow,
        count_max=count,
        committed=not uncommitted,
    )
    printer = _printer("json" if where.output.is_json else form, unescaped(separator), null.encode())
    with wire_client(where.target) as client:
        consuming = Consuming(client, choice, printer, sys.stdout.buffer.flush)
        if group is None:
            consuming.run()
        else:
            from pybroker.terminal.membership import Member

            with Member(where.target, client, group, topics) as member:
                consuming.run_in_group(member)


def _printer(form: str, separator: bytes, null: bytes) -> Any:
    """Return a function that prints a record."""
    from pybroker.terminal.formats import as_json, as_line, harmless

    out, is_terminal = sys.stdout.buffer, sys.stdout.isatty()

    def of_line(partition: Any, record: Any) -> None:  # noqa: ARG001
        line = as_line(record, key_separator=separator if form == "key-value" else None, null=null)
        out.write((harmless(line).encode() if is_terminal else line) + b"\n")

    def of_json(partition: Any, record: Any) -> None:
        out.write(as_json(partition, record).encode(errors="backslashreplace") + b"\n")

    if form == "none":
        return lambda *_: None
    return of_json if form == "json" else of_line
