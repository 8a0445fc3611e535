"""`pybroker completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import click

SHELLS = {
    "bash": 'eval "$(pybroker completion bash)", in ~/.bashrc',
    "zsh": 'eval "$(pybroker completion zsh)", in ~/.zshrc',
    "fish": "pybroker completion fish > ~/.config/fish/completions/pybroker.fish",
}


@click.command("completion", epilog=f"To set it up: {'; '.join(SHELLS.values())}")
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def command(context: click.Context, *, shell: str) -> None:
    """Print the completion of commands and options for a shell."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    root = context.find_root()
    name = root.info_name or "pybroker"
    completion = kind(root.command, {}, name, f"_{name.replace('-', '_').upper()}_COMPLETE")
    click.echo(completion.source_template % completion.source_vars())
