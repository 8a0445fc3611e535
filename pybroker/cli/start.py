"""`pybroker start`: reads the configuration and runs a broker until a signal stops it.

Start-up time is a promise, so everything heavy is imported here, late and once, with the garbage collector off: objects made
while importing are not garbage, and looking for garbage takes time.
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pybroker.cli.main import ConfigurationError, RunError
from pybroker.cli.private_files import keep_private, warning

if TYPE_CHECKING:
    from types import FrameType

    from pybroker.broker.lifecycle import Lifecycle
    from pybroker.broker.ready_file import ReadyFile
    from pybroker.config.broker import BrokerConfig
    from pybroker.config.load import Loaded
    from pybroker.quorum.member import Member
    from pybroker.quorum.members import Quorum

logger = logging.getLogger(__name__)


ADDRESS_IN_USE: Final = (
    "another program listens there; that property chooses another port, and --port that of the first listener (0 means any free "
    "one); `pybroker doctor HOST:PORT` shows whether that program is a broker"
)

_FIRST: Final = 1
_COLLECTING: Final = "pybroker.sharing.turns.garbage"
_LATER_S: Final = 0.01


class StoppedEarly(SystemExit):
    """A signal has ended the process before the broker was ready, which is no error."""

    code = 0


env_option = click.option("--env", is_flag=True, help="Read KAFKA_* environment variables as properties, as the image does.")
override_option = click.option(
    "--override", "overrides", multiple=True, metavar="NAME=VALUE", help="Set a property; may be repeated."
)
"""The options of all commands that read the configuration of a broker."""


@click.command("start")
@click.argument("config", required=False, type=click.Path(path_type=Path))
@click.option("--host", help="Address of the first listener, 127.0.0.1 by default; 0.0.0.0 or :: means every interface.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port of the first listener; 0 means any free port.")
@click.option("--data-dir", metavar="DIR", help="The data directory; the same as --override log.dirs=DIR.")
@override_option
@env_option
@click.option(
    "--brokers", type=click.IntRange(1), default=1, help="Run this many brokers, one process each, as one cluster; 1 by default."
)
@click.option(
    "--as-version", metavar="RELEASE", help="Serve what this release of Kafka does, for tests of clients: 0.8.2 to 4.3."
)
@click.option("--exit-with-parent", is_flag=True, help="Stop when the process that started the broker ends, in whatever way.")
@click.option("--log-level", "levels", multiple=True, metavar="[MODULE=]LEVEL", help="Level of all logs, or of one module's.")
@click.option("--log-format", type=click.Choice(["text", "json"]), help="Format of the logs on stderr.")
@click.option(
    "--log-config", type=click.Path(path_type=Path), help="A file with levels and format, such as config/logging.properties."
)
@click.option("--log-field", "fields", multiple=True, metavar="NAME=VALUE", hidden=True, help="A field of each line of the log.")
def command(
    *,
    config: Path | None,
    host: str | None,
    port: int | None,
    data_dir: str | None,
    overrides: tuple[str, ...],
    env: bool,
    brokers: int,
    as_version: str | None,
    exit_with_parent: bool,
    levels: tuple[str, ...],
    log_format: str | None,
    log_config: Path | None,
    fields: tuple[str, ...],
) -> None:
    """Run a broker, or several on this machine.

    CONFIG is a properties file; without one, all properties have their defaults. With --env, properties also come from KAFKA_*
    environment variables, which win over the file. The options win over both.

    With --brokers N, broker i has the node id i, its data in broker_i of the data directory, and all ports raised by i - 1.
    """
    parent = _parent() if exit_with_parent else None  # before the slow imports, during which it may end
    prepare()
    properties = properties_of(overrides, "--override")
    if host is not None:
        if not host.strip():
            raise click.UsageError("--host must name an address")
        if host.count(":") == 1:
            raise click.UsageError(f"--host {host}: must be an address without a port, which --port sets")
        if "listeners" in properties:
            raise click.UsageError("--host and --override listeners set the same property: use only one of them")
    if data_dir is not None:
        if not data_dir.strip():
            raise click.UsageError("--data-dir must name a directory")
        if "log.dirs" in properties:
            raise click.UsageError("--data-dir and --override log.dirs set the same property: use only one of them")
        properties["log.dirs"] = data_dir
    if as_version is not None:
        if "pybroker.as.version" in properties:
            raise click.UsageError("--as-version and --override pybroker.as.version set the same property: use only one of them")
        properties["pybroker.as.version"] = as_version
    _set_up_logging(log_config, levels, log_format, properties_of(fields, "--log-field"))
    loaded = load_configuration(config, properties, env=env, host=host, port=port)
    if brokers > 1:
        from pybroker.cli.several_brokers import Options, serve_several

        texts = [f"{name}={text}" for name, text in properties.items()]
        options = Options(config, env, texts, levels, log_format, log_config)
        exit_code = serve_several(loaded.config, brokers, options, _ready_file(), stop_signals=stop_signals(), parent=parent)
    else:
        _refuse_data_of_several(loaded.config.log_dirs)
        exit_code = serve(loaded, _lifecycle(), parent=parent)
    if exit_code:
        raise click.exceptions.Exit(exit_code)


def _parent() -> int:
    """Return the process that started the broker. Raises RunError if it has ended already.

    The first process of the system gets the children of one that has ended. It may also have started the broker itself, as the
    first process of a container does, and then both are of one session.
    """
    parent = os.getppid()
    if parent == _FIRST and os.getsid(0) != os.getsid(_FIRST):
        raise RunError("--exit-with-parent: the process that started the broker has already ended")
    return parent


def prepare() -> None:
    """Prepare for fast imports and private files, and let a signal end the process until the broker runs and has handlers of its
    own. Call it first.
    """
    gc.disable()
    keep_private()
    _open_standard_streams()
    for number in stop_signals():
        signal.signal(number, _stop_while_starting)
    # An image's start blocks signals: the first process of a container does not get a signal for which it has no handler.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stop_signals())
    # The search for pydantic's plugins opens the metadata of every installed package; the broker has no plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def _open_standard_streams() -> None:
    """Open /dev/null for standard streams that the caller closed: a socket with one of their numbers makes uvloop abort."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the smallest free number, which is this one


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that stop the broker. SIGHUP, which a closed terminal sends, is none if it is ignored, as by `nohup`."""
    always = signal.SIGTERM, signal.SIGINT
    return always if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (*always, signal.SIGHUP)


def _stop_while_starting(_number: int, frame: FrameType | None) -> None:
    """Exit at a signal before the broker runs: there is nothing to stop but an etcd beside it, and an interrupted recovery
    begins again at the next start. What is raised in a callback of the garbage collector is lost, so that exit comes a little
    later.
    """
    if frame is not None and frame.f_globals.get("__name__") == _COLLECTING:
        signal.signal(signal.SIGALRM, _stop_while_starting)
        signal.setitimer(signal.ITIMER_REAL, _LATER_S)
        return
    logger.info("Stopping, before the broker is ready")
    raise StoppedEarly


def _refuse_data_of_several(log_dirs: Sequence[str]) -> None:
    """Raise RunError if a data directory is that of several brokers, because none of them has its data in it directly."""
    for path in log_dirs:
        if Path(path, "broker_1", "meta.properties").exists():
            raise RunError(f"{path} is the data directory of several brokers: start with --brokers, or name another directory")


def _set_up_logging(file: Path | None, levels: tuple[str, ...], form: str | None, fields: Mapping[str, str]) -> None:
    from pybroker.cli.logging_setup import set_up_logging
    from pybroker.config.load import ConfigFileError, read_properties
    from pybroker.config.setting import ConfigError

    try:
        set_up_logging(read_properties(file) if file is not None else {}, levels, form, fields)
    except (ConfigError, ConfigFileError) as error:
        raise ConfigurationError(str(error)) from error


def load_configuration(
    file: Path | None, properties: Mapping[str, str], *, env: bool, host: str | None = None, port: int | None = None
) -> Loaded:
    """Load a broker's configuration from the command line, and from KAFKA_* variables if `env`. Raises ConfigurationError."""
    from pybroker.config.environment import own_variables
    from pybroker.config.load import ConfigFileError, ignored_variables, load
    from pybroker.config.setting import ConfigError

    environment = os.environ if env else own_variables(os.environ)
    if not env and (ignored := ignored_variables(os.environ)):
        logger.info("The environment has %s, which only --env reads as properties", ", ".join(ignored))
    try:
        return load(file=file, environment=environment, overrides=properties, host=host, port=port)
    except (ConfigError, ConfigFileError) as error:
        raise ConfigurationError(str(error)) from error


def _ready_file() -> ReadyFile | None:
    """Return the ready file of an image's health check, which the image names to whatever command it runs."""
    from pybroker.broker.ready_file import VARIABLE, ReadyFile

    path = os.environ.get(VARIABLE)
    return ReadyFile(Path(path)) if path else None


def _lifecycle() -> Lifecycle | None:
    from pybroker.broker.lifecycle import STARTING, Lifecycle

    ready_file = _ready_file()
    if ready_file is None:
        return None
    ready_file.forget(STARTING)
    return Lifecycle(ready_file)


def serve(loaded: Loaded, lifecycle: Lifecycle | None = None, *, parent: int | None = None) -> int:
    """Run a broker with this configuration until a signal or the end of the process `parent`, and return the exit code.

    Raises RunError.
    """
    for line in loaded.warnings:
        logger.warning("%s", line)
    if (line_of_secrets := warning(loaded)) is not None:
        logger.warning("%s", line_of_secrets)
    for line in loaded.notices:
        logger.info("%s", line)

    import pybroker.broker.process
    from pybroker.sharing.turns.garbage import keep_collections_short

    config, member = _with_quorum(loaded.config)
    for name in config.dropped_listeners if member is None else ():
        logger.info("Nothing listens at the listener %s of controller.listener.names, because no controller runs here", name)
    _check_addresses(config)
    keep_collections_short()
    gc.enable()
    try:
        if not config.is_broker and member is not None:
            return pybroker.broker.process.run_controller(member, lifecycle, stop_signals=stop_signals())
        return pybroker.broker.process.run(config, lifecycle, stop_signals=stop_signals(), parent=parent, member=member)
    except pybroker.broker.process.StartError as error:
        raise RunError(str(error)) from error
    except StoppedEarly:
        logger.info("Stopped before the broker was ready")
        raise
    except OSError as error:
        logger.debug("The broker cannot run", exc_info=error)
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            reason = f"{reason}: {ADDRESS_IN_USE}"
        raise RunError(reason if error.filename is None else f"{error.filename}: {reason}") from error


def _check_addresses(config: BrokerConfig) -> None:
    """Raise ConfigurationError if settings of etcd cannot work, or the brokers that share it could not reach this one."""
    from pybroker.broker.registration import check_addresses
    from pybroker.config.setting import ConfigError
    from pybroker.metadata.store import open_store
    from pybroker.metadata.store.base import StoreError

    try:
        if config.is_broker and config.is_metadata_shared:
            check_addresses(config)
            open_store(config.metadata_store, config=config)  # which connects only when it is used
    except (ConfigError, StoreError) as error:
        raise ConfigurationError(str(error)) from error


def _with_quorum(config: BrokerConfig) -> tuple[BrokerConfig, Member | None]:
    """Return the configuration with the metadata in the controllers' etcd, and what runs that etcd, if the settings name
    controllers. Raises ConfigurationError.
    """
    quorum = controllers_of(config)
    if quorum is None:
        return config, None
    from pybroker.quorum.etcd_command import DIRECTORY, token_of
    from pybroker.quorum.member import Member

    member = Member(quorum, str(Path(config.log_dirs[0]) / DIRECTORY), token_of(quorum, config.cluster_id))
    return config.model_copy(update={"metadata_store": quorum.metadata_store}), member


def controllers_of(config: BrokerConfig) -> Quorum | None:
    """Return the controllers that keep the metadata, if the settings name some. Raises ConfigurationError."""
    if not config.controller_quorum_voters and not config.controller_quorum_bootstrap_servers:
        return None
    from pybroker.config.setting import ConfigError
    from pybroker.container.own_hosts import is_own_host
    from pybroker.quorum.members import quorum_of

    try:
        return quorum_of(config, is_own_host)
    except ConfigError as error:
        raise ConfigurationError(str(error)) from error


def properties_of(options: Sequence[str], option_name: str) -> dict[str, str]:
    """Parse options of the form NAME=VALUE. Raises UsageError."""
    properties = {}
    for option in options:
        name, separator, value = option.partition("=")
        if not separator or not name.strip():
            raise click.UsageError(f"{option_name} {option}: must be NAME=VALUE")
        properties[name.strip()] = value
    return properties
