"""`pybroker apis`: what is served, in the form in which people read it."""

from __future__ import annotations

import click

from pybroker.api import document


@click.command("apis")
def command() -> None:
    """Print docs/apis.md: every API with its versions."""
    click.echo(document.markdown(), nl=False)
