"""`pybroker start`: reads the configuration and runs a broker until a signal stops it.

Start-up time is a promise, so everything heavy is imported here, late and once, with the garbage collector off: objects made
while importing are not garbage, and looking for garbage takes time.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pybroker.cli.main import ConfigurationError, RunError

if TYPE_CHECKING:
    from pybroker.broker.lifecycle import Lifecycle
    from pybroker.config.load import Loaded

logger = logging.getLogger(__name__)


@click.command("start")
@click.argument("config", required=False, type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), help="Port of the first listener; 0 means any free port.")
@click.option("--data-dir", metavar="DIR", help="The data directory; the same as --override log.dirs=DIR.")
@click.option("--override", "overrides", multiple=True, metavar="NAME=VALUE", help="Set a property; may be repeated.")
@click.option("--log-level", "levels", multiple=True, metavar="[MODULE=]LEVEL", help="Level of all logs, or of one module's.")
@click.option("--log-format", type=click.Choice(["text", "json"]), help="Format of the logs on stderr.")
@click.option(
    "--log-config", type=click.Path(path_type=Path), help="A file with levels and format, such as config/logging.properties."
)
def command(
    *,
    config: Path | None,
    port: int | None,
    data_dir: str | None,
    overrides: tuple[str, ...],
    levels: tuple[str, ...],
    log_format: str | None,
    log_config: Path | None,
) -> None:
    """Run a broker.

    CONFIG is a properties file; without one, all properties have their defaults. Properties also come from KAFKA_* environment
    variables, which win over the file, and from the options, which win over both.
    """
    prepare()
    properties = properties_of(overrides, "--override")
    if data_dir is not None:
        if not data_dir.strip():
            raise click.UsageError("--data-dir must name a directory")
        if "log.dirs" in properties:
            raise click.UsageError("--data-dir and --override log.dirs set the same property: use only one of them")
        properties["log.dirs"] = data_dir
    exit_code = _run(file=config, port=port, properties=properties, levels=levels, log_format=log_format, log_config=log_config)
    if exit_code:
        raise click.exceptions.Exit(exit_code)


def prepare() -> None:
    """Prepare for fast imports, and let a signal end the process until the broker runs and has handlers of its own. Call it
    first.
    """
    gc.disable()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop_while_starting)
    # An image's start blocks these signals: the first process of a container does not get a signal for which it has no handler.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
    # The search for pydantic's plugins opens the metadata of every installed package; the broker has no plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def _stop_while_starting(_number: int, _frame: object) -> None:
    """Exit at a signal before the broker runs: there is nothing to stop, and an interrupted recovery begins again at the next
    start.
    """
    sys.exit(0)


def _run(
    *,
    file: Path | None,
    port: int | None,
    properties: dict[str, str],
    levels: tuple[str, ...],
    log_format: str | None,
    log_config: Path | None,
) -> int:
    from pybroker.cli.logging_setup import set_up_logging
    from pybroker.config.load import ConfigFileError, load, read_properties
    from pybroker.config.setting import ConfigError

    try:
        set_up_logging(read_properties(log_config) if log_config is not None else {}, levels, log_format)
        loaded = load(file=file, environment=os.environ, overrides=properties, port=port)
    except (ConfigError, ConfigFileError) as error:
        raise ConfigurationError(str(error)) from error
    return serve(loaded, _lifecycle())


def _lifecycle() -> Lifecycle | None:
    """Return a lifecycle with the ready file of an image's health check, which the image names to whatever command it runs."""
    from pybroker.broker.lifecycle import STARTING, Lifecycle
    from pybroker.broker.ready_file import VARIABLE, ReadyFile

    path = os.environ.get(VARIABLE)
    if not path:
        return None
    ready_file = ReadyFile(Path(path))
    ready_file.forget(STARTING)
    return Lifecycle(ready_file)


def serve(loaded: Loaded, lifecycle: Lifecycle | None = None) -> int:
    """Run a broker with this configuration until a signal, and return the exit code. Raises RunError."""
    for line in loaded.warnings:
        logger.warning("%s", line)
    for line in loaded.notices:
        logger.info("%s", line)

    import pybroker.broker.process
    from pybroker.turns.garbage import keep_collections_short

    keep_collections_short()
    gc.enable()
    try:
        return pybroker.broker.process.run(loaded.config, lifecycle)
    except pybroker.broker.process.StartError as error:
        raise RunError(str(error)) from error
    except OSError as error:
        logger.debug("The broker cannot run", exc_info=error)
        reason = error.strerror or str(error)
        raise RunError(reason if error.filename is None else f"{error.filename}: {reason}") from error


def properties_of(options: Sequence[str], option_name: str) -> dict[str, str]:
    """Parse options of the form NAME=VALUE. Raises UsageError."""
    properties = {}
    for option in options:
        name, separator, value = option.partition("=")
        if not separator or not name.strip():
            raise click.UsageError(f"{option_name} {option}: must be NAME=VALUE")
        properties[name.strip()] = value
    return properties
