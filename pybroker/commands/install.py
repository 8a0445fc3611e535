"""Small scripts by which the commands are called by name, with and without .sh."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from pybroker.commands.run import COMMANDS, OTHERS

WITHOUT_SUFFIX = ("cub", "ub")
MODE = 0o755


def install(folder: Path) -> list[str]:
    """Write a script for each command into a folder and return their names. What is there under another content stays.

    Raises OSError, and FileExistsError naming a file that is not ours.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = [name for command in (*COMMANDS, *OTHERS) for name in spellings(command)]
    for name in names:
        path = folder / name
        if path.exists() and MARK not in path.read_text(errors="replace"):
            raise FileExistsError(17, "is there already and not one of pybroker's scripts", str(path))
    for name in names:
        path = folder / name
        path.write_text(script(name))
        path.chmod(MODE)
    return names


def spellings(command: str) -> list[str]:
    """The names of a command."""
    return [command] if command in WITHOUT_SUFFIX else [command, f"{command}.sh"]


MARK = "pybroker/commands/__main__.py"


def script(name: str) -> str:
    """Starts this interpreter without `site`, which finds packages that most commands do not need."""
    entry = Path(__file__).parent / "__main__.py"
    command = f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(entry))} {name.removesuffix('.sh')}"
    return f'#!/bin/sh\nexec {command} "$@"\n'
