"""`pybroker completion`: what a shell needs to complete commands, options and names."""

from __future__ import annotations

import click

SHELLS = {
    "bash": """in ~/.bashrc:  eval "$(pybroker completion bash)\"""",
    "zsh": """in ~/.zshrc:   eval "$(pybroker completion zsh)\"""",
    "fish": "once:          pybroker completion fish > ~/.config/fish/completions/pybroker.fish",
}
SET_UP = "\b\nTo set it up:\n" + "\n".join(f"  {shell:5} {line}" for shell, line in SHELLS.items())


@click.command("completion", epilog=SET_UP)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def command(context: click.Context, *, shell: str) -> None:
    """Print a script by which a shell completes commands, options, and names of topics, groups and transactional ids."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    root = context.find_root()
    name = root.info_name or "pybroker"
    completion = kind(root.command, {}, name, f"_{name.replace('-', '_').upper()}_COMPLETE")
    click.echo(completion.source_template % completion.source_vars())
