"""`pybroker apis`: prints the documentation of the APIs that the broker serves."""

from __future__ import annotations

import click


@click.command("apis")
@click.option("--permissions", is_flag=True, help="Print what each API needs instead: the list of docs/security.md.")
def command(*, permissions: bool) -> None:
    """Print docs/apis.md: every API with its versions."""
    if permissions:
        from pybroker.api.access.document import rows

        click.echo(rows())
        return
    from pybroker.api.document import markdown

    click.echo(markdown(), nl=False)
