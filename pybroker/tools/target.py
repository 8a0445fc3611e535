"""Decides which brokers a command talks to, and how long it waits for them."""

from __future__ import annotations

import os
import sys

from pybroker.client.errors import ClientError
from pybroker.client.frames import Frames  # noqa: TC001  `typing` is slow to import
from pybroker.tools.connection import RESPONSE_S, WAIT_S, connect, servers
from pybroker.tools.errors import NOT_SUPPORTED, CommandError
from pybroker.tools.options import VALUE, Options

BOOTSTRAP_VARIABLE = "PYBROKER_BOOTSTRAP"
READY_VARIABLE, READY_FILE = "PYBROKER_READY_FILE", "/tmp/pybroker-ready"  # noqa: S108  where a container's broker writes its address

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from pybroker.client.security import Security

OPTIONS = {"bootstrap-server": VALUE, "command-config": VALUE, "zookeeper": VALUE, "version": "", "help": ""}
"""The options of every command of an administrator."""


class Target:
    """The brokers, and the settings of a properties file for the client."""

    def __init__(self, bootstrap: str, properties: dict[str, str]) -> None:
        self.bootstrap, self.properties = bootstrap, properties
        self.servers = servers(bootstrap)
        self.security = security_of(properties)

    def connect(self, *, wait_s: float | None = None, response_s: float | None = None) -> Frames:
        """Return a connection to one of the brokers. Raises ClientError and CommandError."""
        request_s = self._seconds("request.timeout.ms", RESPONSE_S) if response_s is None else response_s
        if wait_s is None:
            wait_s = self._seconds("default.api.timeout.ms", WAIT_S)
        return connect(self.servers, wait_s=wait_s, response_s=request_s, security=self.security)

    def connect_to(self, host: str, port: int) -> Frames:
        """Return a connection to a broker that the cluster has named, without a second attempt. Raises ClientError."""
        try:
            response_s = self._seconds("request.timeout.ms", RESPONSE_S)
            return connect([(host, port)], wait_s=0, response_s=response_s, security=self.security)
        except CommandError as error:  # its name does not resolve
            raise ClientError(str(error)) from error

    def _seconds(self, name: str, otherwise: float) -> float:
        text = self.properties.get(name)
        if text is None:
            return otherwise
        if not text.strip().isdecimal():
            raise CommandError(f"Invalid value {text} for configuration {name}: not a number of milliseconds")
        return int(text) / 1000


def target_of(tool: str, options: Options, *, is_required: bool = True) -> Target:
    """Return the target that the options of an administrator's command name. Raises CommandError."""
    bootstrap = options.value("bootstrap-server")
    if bootstrap is None and options.has("zookeeper"):
        bootstrap = instead_of_zookeeper(tool)
    if bootstrap is None:
        bootstrap = os.environ.get(BOOTSTRAP_VARIABLE)
    if bootstrap is None:
        if is_required:
            raise CommandError("--bootstrap-server must be specified")
        options.require("bootstrap-server")
    assert bootstrap is not None
    return Target(bootstrap, client_properties(options.value("command-config")))


def instead_of_bootstrap(tool: str, options: Options) -> str:
    """Return the brokers for a command that names none. Raises CommandError."""
    if options.has("zookeeper"):
        return instead_of_zookeeper(tool)
    bootstrap = os.environ.get(BOOTSTRAP_VARIABLE)
    if bootstrap is None:
        raise CommandError('Missing required argument "[bootstrap-server]"')
    return bootstrap


def instead_of_zookeeper(tool: str) -> str:
    """Return the broker that a command with --zookeeper means: there is no ZooKeeper, and only one cluster that it can
    concern.
    """
    bootstrap = os.environ.get(BOOTSTRAP_VARIABLE) or _of_this_container()
    if bootstrap is None:
        raise CommandError(
            f"{tool}: --zookeeper is not supported, because there is no ZooKeeper: "
            f"use --bootstrap-server HOST:PORT, or set {BOOTSTRAP_VARIABLE}=HOST:PORT",
            NOT_SUPPORTED,
        )
    print(
        f"WARN {tool}: there is no ZooKeeper; --zookeeper is ignored and the command uses the broker at {bootstrap}",
        file=sys.stderr,
    )
    return bootstrap


def _of_this_container() -> str | None:
    """Return the address in the file that a container's broker writes when it is ready."""
    try:
        with open(os.environ.get(READY_VARIABLE, READY_FILE), encoding="ascii") as file:  # noqa: PTH123  pathlib is slow to import
            host, port = file.read().split()[:2]
    except (OSError, ValueError):
        return None
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def client_properties(path: str | None) -> dict[str, str]:
    """Read a client's properties file. Raises CommandError."""
    return {} if path is None else properties_of(path)


def properties_of(path: str) -> dict[str, str]:
    """Read a properties file. Raises CommandError."""
    from pybroker.config.properties import PropertiesError, parse_properties

    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            return parse_properties(file.read())
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
    except PropertiesError as error:
        raise CommandError(f"{path}: {error}") from error


def security_of(properties: dict[str, str]) -> Security | None:
    """Return how the client's connections are secured; None if they are not. Raises CommandError."""
    if properties.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT":
        return None
    from pybroker.client import security
    from pybroker.config.setting import ConfigError

    try:
        return security.security_of(properties)
    except ConfigError as error:
        raise CommandError(str(error)) from error
