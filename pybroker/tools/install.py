"""Writes small scripts by which the commands are called by name, with and without .sh."""

from __future__ import annotations

import contextlib
import shlex
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from pybroker.tools.run import COMMANDS, OTHERS

WITHOUT_SUFFIX: Final = ("cub", "ub")
MODE: Final = 0o755
MARK: Final = "pybroker/tools/__main__.py"
"""A mark that is in every script of pybroker's."""

HERE: Final = Path(__file__).parent


def install(folder: Path) -> list[str]:
    """Write a script for each command into a folder and return their names.

    Raises OSError, and FileExistsError naming a file that exists and is not pybroker's; then nothing is written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = [name for command in (*COMMANDS, *OTHERS) for name in spellings(command)]
    for name in names:
        path = folder / name
        if path.exists() and MARK not in path.read_text(errors="replace"):
            raise FileExistsError(17, "exists already and is not one of pybroker's scripts", str(path))
    for name in names:
        path = folder / name
        path.write_text(script(name))
        path.chmod(MODE)
    compile_imports()
    return names


def spellings(command: str) -> list[str]:
    """Return the names of a command."""
    return [command] if command in WITHOUT_SUFFIX else [command, f"{command}.sh"]


def script(name: str) -> str:
    """Return a script that starts this interpreter without `site`, which finds packages that most commands do not need."""
    command = f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(HERE / '__main__.py'))} {name.removesuffix('.sh')}"
    return f'#!/bin/sh\nexec {command} "$@"\n'


def compile_imports() -> None:
    """Import everything that the commands may import, so that it is compiled: the user that runs them may not be allowed to write
    it.
    """
    for path in sorted(HERE.glob("[a-z]*.py")):
        import_module(f"pybroker.tools.{path.stem}")
    import_module("pybroker.config.properties")
    with contextlib.suppress(ImportError):
        import_module("confluent_kafka")
