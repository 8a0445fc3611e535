"""`pybroker doctor`: reports why a client can or cannot use a broker."""

from __future__ import annotations

import functools
import os

import click

from pybroker.cli.cluster_options import examples, json_option


def _address(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[str, int] | None:
    from pybroker.client.address import parse_address

    if text is None:
        return None
    try:
        host, port = parse_address(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if ":" in host and "[" not in text:
        raise click.BadParameter(f"{text!r} is not HOST:PORT; an IPv6 address needs brackets")
    return host, port


@click.command(
    "doctor",
    short_help="Report why a client here can or cannot use a broker.",
    epilog=examples("pybroker doctor", "pybroker doctor kafka.example:9093 --command-config client.properties"),
)
@click.argument("address", metavar="[HOST:PORT]", required=False, callback=_address)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1, 600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long each step may take.",
)
@click.option(
    "--command-config",
    type=click.Path(dir_okay=False),
    help="Read settings of the client from this properties file: security.protocol, ssl.* and sasl.*, as Java's have them.",
)
@json_option
def command(*, address: tuple[str, int] | None, timeout_s: float, command_config: str | None, is_json: bool) -> None:
    """Report why a client on this machine can or cannot use a broker, of pybroker or of Apache Kafka, and what to change.

    The command looks at the address and at those that the broker advertises to clients: their names, connections, TLS and
    logins. It also reports brokers that are missing, and partitions without a leader or with replicas that are not in sync.

    HOST:PORT is by default the address of the cluster that other commands use: of $PYBROKER_BOOTSTRAP, of a profile, or
    localhost:9092. The exit code is 0 when a client would work and the cluster lacks nothing, and otherwise 1.

    With --json, there is an object for each address, that of HOST:PORT first, and one for each lack of the cluster. Its `problem`
    is null when there is none.
    """
    from pybroker.doctor.examine import examine
    from pybroker.doctor.look import look
    from pybroker.terminal.output import Output
    from pybroker.terminal.profiles import target_of
    from pybroker.tools.errors import CommandError
    from pybroker.tools.target import client_properties, security_of

    try:
        if address is None:
            target = target_of(os.environ, command_config=command_config)
            address, security = target.servers[0], target.security
        else:
            security = security_of(client_properties(command_config))
    except CommandError as error:
        raise click.ClickException(str(error)) from error
    looking = functools.partial(look, timeout_s=timeout_s, security=security)
    findings = examine(*address, looking, (lambda _: None) if is_json else click.echo, timeout_s)
    if is_json:
        Output(click.echo, is_json=True, has_colours=False).rows([], (one.as_row() for one in findings))
    if any(one.problem for one in findings):
        raise click.exceptions.Exit(1)
