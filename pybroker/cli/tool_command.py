"""`pybroker tool`: runs Kafka's command line tools."""

from __future__ import annotations

from pathlib import Path

import click

from pybroker.cli.main import RunError


@click.command("tool", context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False)
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(context: click.Context, *, name: str | None, arguments: tuple[str, ...]) -> None:
    """Run one of Kafka's tools, such as kafka-topics.

    `pybroker tool kafka-topics --help` lists the options of kafka-topics. `pybroker tool install DIR...` writes a script for
    each tool into each DIR, under the name that Kafka's script has.
    """
    if name is None or name in ("-h", "--help"):
        from pybroker.tools.run import COMMANDS

        click.echo(context.get_help())
        click.echo("\nTools:\n" + "\n".join(f"  {tool}" for tool in COMMANDS))
    elif name == "install":
        _install(arguments)
    else:
        from pybroker.tools.run import main

        main([name, *arguments])


def _install(arguments: tuple[str, ...]) -> None:
    from pybroker.tools.install import install

    if not arguments or any(one.startswith("-") for one in arguments):
        raise click.UsageError("pybroker tool install needs the names of directories, and takes no options")
    for folder in arguments:
        try:
            names = install(Path(folder))
        except OSError as error:
            raise RunError(f"{error.filename}: {error.strerror}") from error
        click.echo(f"{len(names)} scripts in {folder}")
