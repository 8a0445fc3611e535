"""Turns a container's environment and files into what is to be started.

Strongest first: the command line, the environment, a properties file that is mounted where another image looks for one, the
image's own defaults and Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pybroker.config.listeners import has_logins
from pybroker.config.load import COMMAND_LINE, load_texts, merge, texts_of_file
from pybroker.container import access_control, own_hosts, refusals, several_brokers
from pybroker.container.directories import default_directory
from pybroker.container.files import find_file
from pybroker.container.jaas_file import login_modules
from pybroker.container.own_hosts import is_own_host
from pybroker.container.secret_files import properties_of_files
from pybroker.container.topics import wanted_topics
from pybroker.container.variables import SEPARATOR_VARIABLE, read_variables

if TYPE_CHECKING:
    from pathlib import Path

    from pybroker.config.load import Loaded
    from pybroker.metadata.new_topic import NewTopic

DEFAULT: Final = "the image's default"
EVERYWHERE: Final = "PLAINTEXT://:9092"
"""As Kafka's default: nothing outside reaches the loopback address of a container."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Entry:
    """A configuration, the topics to make, the cluster id with where it was set, and remarks for the user about all this.

    `warnings` are about settings whose user may have meant something else.
    """

    loaded: Loaded
    topics: Mapping[str, tuple[str, NewTopic]]
    cluster_id: tuple[str, str] | None
    remarks: tuple[str, ...]
    warnings: tuple[str, ...]


def read_entry(
    environment: Mapping[str, str],
    *,
    file: Path | None = None,
    overrides: Mapping[str, str] | None = None,
    root: str = "/",
    is_own_host: Callable[[str], bool] = is_own_host,
) -> Entry:
    """Read what this environment asks for. `root` is where other images' files would lie; `is_own_host` knows this container's
    names.

    Raises ConfigError for an invalid setting, ConfigFileError for a file that cannot be read.
    """
    variables = read_variables(environment)
    file, of_files = find_file(file, root)
    remarks = [*variables.remarks, *of_files]
    sources = [
        {name: (COMMAND_LINE, text) for name, text in (overrides or {}).items()},
        {**variables.properties, **properties_of_files(environment, root)},
        texts_of_file(file) if file is not None else {},
    ]
    merged = merge(sources)
    refusals.check({**variables.others, **merged})
    everything = several_brokers.stated([*sources, variables.others])
    several_brokers.check(everything, is_own_host)
    has_directory = any(name in merged and merged[name][1].strip() for name in ("log.dirs", "log.dir"))
    defaults = {"pybroker.advertised.by.peer": (DEFAULT, "true"), "listeners": (DEFAULT, EVERYWHERE)}
    if not has_directory:
        defaults["log.dirs"] = (DEFAULT, default_directory())
    loaded = load_texts([*sources, defaults])
    if modules := login_modules(environment, loaded.config.endpoints, merged):
        loaded = load_texts([modules, *sources, defaults])
    protocols = {endpoint.security_protocol for endpoint in loaded.config.endpoints}
    unprotected = access_control.check({**variables.others, **merged}, environment, protocols)
    is_sasl_used = any(map(has_logins, protocols))
    logins = [] if is_sasl_used else access_control.ignored_logins(merged, environment)
    own_hosts.check(loaded.config.endpoints, merged, is_own_host)
    topics = wanted_topics(
        variables.topics,
        environment.get(SEPARATOR_VARIABLE, ""),
        takes_replicas=several_brokers.takes_replicas(everything),
    )
    remarks.append(f"Data directories: {', '.join(loaded.config.log_dirs)}")
    return Entry(
        loaded=loaded,
        topics=topics,
        cluster_id=merged.get("cluster.id"),
        remarks=tuple(remarks),
        warnings=(*variables.warnings, *several_brokers.undecided(everything), *unprotected, *logins),
    )
