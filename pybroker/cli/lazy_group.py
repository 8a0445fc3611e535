"""Click groups that import their commands only when they are called, and that suggest the command that was meant."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final

import click

from pybroker.listed import did_you_mean

SENTENCE_MAX: Final = 1000


class HelpfulGroup(click.Group):
    """Lists its commands in whole sentences, and names similar ones when there is none of a name, as click does for options."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Raises UsageError, with what may have been meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            meant = did_you_mean(args[0], self.list_commands(ctx))
            if not meant or "Did you mean" in error.format_message():
                raise
            raise click.UsageError(error.message.rstrip(".") + meant, ctx=error.ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, each with the whole first sentence of its help, which click would cut."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(SENTENCE_MAX)) for name, command in commands if command is not None]
            )


class LazyGroup(HelpfulGroup):
    """Finds its commands by the names of their modules, each of which has a `command`.

    `tasks` are the lines of the help, by heading and name, so that the help imports no command; without them, it imports all.
    """

    def __init__(
        self, *, modules: Mapping[str, str], tasks: Mapping[str, Mapping[str, str]] | None = None, **attributes: Any
    ) -> None:
        super().__init__(**attributes)
        self._modules, self._tasks = modules, tasks

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands: those of the help in its order."""
        return sorted(self._modules) if self._tasks is None else [name for names in self._tasks.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command."""
        module = self._modules.get(cmd_name)
        if module is None:
            return None
        command = importlib.import_module(module).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by task."""
        if self._tasks is None:
            super().format_commands(ctx, formatter)
            return
        width = max(len(name) for names in self._tasks.values() for name in names)
        for heading, names in self._tasks.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), line) for name, line in names.items()])
