"""`pybroker config`: prints the table of properties in the forms in which people read it."""

from __future__ import annotations

import click

from pybroker.cli.lazy_group import HelpfulGroup
from pybroker.config import document


@click.group("config", cls=HelpfulGroup)
def command() -> None:
    """Show the properties that a broker has."""


@command.command("list")
def list_() -> None:
    """Print every property with its type, default and effect."""
    click.echo(document.listing(), nl=False)


@command.command("properties")
def properties() -> None:
    """Print config/server.properties: all properties as comments with their defaults."""
    click.echo(document.server_properties(), nl=False)


@command.command("document")
def document_() -> None:
    """Print docs/configuration.md."""
    click.echo(document.markdown(), nl=False)
