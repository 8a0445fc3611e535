"""`pybroker container`: the entry point of the container image.

Whatever cannot be done is one line and exit code 1, because the user that starts a container sees only its log.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Final

import click

from pybroker.cli.main import ConfigurationError, RunError
from pybroker.cli.start import override_option, prepare, properties_of, serve

logger = logging.getLogger(__name__)

_LEVEL_VARIABLE: Final = "PYBROKER_LOG_LEVEL"
_FORMAT_VARIABLE: Final = "PYBROKER_LOG_FORMAT"
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


@click.command(
    "container",
    short_help="Run a broker by the variables of other Kafka images.",
    context_settings={"allow_interspersed_args": False},
)
@click.option("--config", type=click.Path(path_type=Path), help="A properties file to use instead of one that is mounted.")
@override_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def command(*, config: Path | None, overrides: tuple[str, ...], words: tuple[str, ...]) -> None:
    """Run a broker by the environment variables of other images of Kafka; docs/containers.md lists them.

    WORDS are variables, as NAME=VALUE, or a command with its arguments, which then runs in place of the broker.
    """
    prepare()
    assignments = [_ASSIGNMENT.fullmatch(word) for word in words]
    if words and not all(assignments):
        _become(words)
    os.environ.update({match[1]: match[2] for match in assignments if match is not None})
    exit_code = _run(config, properties_of(overrides, "--override"))
    if exit_code:
        raise click.exceptions.Exit(exit_code)


def _become(words: tuple[str, ...]) -> None:
    """Run another command in place of this one."""
    try:
        os.execvp(words[0], words)  # noqa: S606  the command that the user of the image asks for
    except OSError as error:
        raise RunError(f"{words[0]}: {error.strerror}") from error


def _run(file: Path | None, properties: dict[str, str]) -> int:
    from pybroker.broker.lifecycle import STARTING
    from pybroker.broker.ready_file import VARIABLE, ReadyFile
    from pybroker.config.load import ConfigFileError
    from pybroker.config.setting import ConfigError
    from pybroker.container.directories import make_usable
    from pybroker.container.entry import read_entry
    from pybroker.container.lifecycle import READY_FILE, ContainerLifecycle

    ready_file = ReadyFile(Path(os.environ.get(VARIABLE) or READY_FILE))
    try:
        _set_up_logging()
        ready_file.forget(STARTING)
        entry = read_entry(os.environ, file=file, overrides=properties)
    except (ConfigError, ConfigFileError) as error:
        raise RunError(str(error)) from error
    for line in entry.warnings:
        logger.warning("%s", line)
    for line in entry.remarks:
        logger.info("%s", line)
    if (reason := make_usable(entry.loaded.config.log_dirs)) is not None:
        raise RunError(reason)
    try:
        return serve(entry.loaded, ContainerLifecycle(entry.topics, ready_file, entry.cluster_id))
    except ConfigurationError as error:  # of the controllers, which nothing above knows
        raise RunError(str(error)) from error


def _set_up_logging() -> None:
    """Set up the logs from the environment. Raises ConfigError that names the variable."""
    from pybroker.cli.logging_setup import set_up_logging
    from pybroker.config.setting import ConfigError

    levels = [level for level in os.environ.get(_LEVEL_VARIABLE, "").split(",") if level.strip()]
    try:
        set_up_logging({}, levels, os.environ.get(_FORMAT_VARIABLE) or None)
    except ConfigError as error:
        variable = _FORMAT_VARIABLE if error.key == "format" else _LEVEL_VARIABLE
        raise ConfigError(variable, error.value, error.reason) from None
