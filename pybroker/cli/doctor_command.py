"""`pybroker doctor`: reports why a client can or cannot use a broker."""

from __future__ import annotations

import functools

import click


def _address(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, int]:
    from pybroker.client.address import parse_address

    try:
        host, port = parse_address(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if ":" in host and "[" not in text:
        raise click.BadParameter(f"{text!r} is not HOST:PORT; an IPv6 address needs brackets")
    return host, port


@click.command("doctor", short_help="Report why a client here can or cannot use a broker.")
@click.argument("address", metavar="HOST:PORT", callback=_address)
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(0.1, 600), default=5.0, show_default=True, help="Seconds for each step."
)
@click.option(
    "--command-config",
    type=click.Path(dir_okay=False),
    help="A Java client's properties, with its security.protocol, ssl.* and sasl.*.",
)
def command(address: tuple[str, int], timeout_s: float, command_config: str | None) -> None:
    """Report why a client on this machine can or cannot use the broker at HOST:PORT.

    The broker may be pybroker or Apache Kafka. The command also names partitions without a leader or with replicas that are not
    in sync, and brokers that are missing. The exit code is 0 when a client would work and the cluster lacks nothing, 1 when not.
    """
    from pybroker.doctor.examine import examine
    from pybroker.doctor.look import look
    from pybroker.tools.errors import CommandError
    from pybroker.tools.target import client_properties, security_of

    try:
        security = security_of(client_properties(command_config))
    except CommandError as error:
        raise click.ClickException(str(error)) from error
    if not examine(*address, functools.partial(look, timeout_s=timeout_s, security=security), click.echo, timeout_s):
        raise click.exceptions.Exit(1)
