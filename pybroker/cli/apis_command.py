"""`pybroker apis`: prints the documentation of the APIs that the broker serves."""

from __future__ import annotations

import click

from pybroker.api import document


@click.command("apis")
def command() -> None:
    """Print docs/apis.md: every API with its versions."""
    click.echo(document.markdown(), nl=False)
