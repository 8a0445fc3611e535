"""Completes names of topics, groups and transactional ids, as the cluster of the command line has them.

A shell waits for this at each Tab: the cluster has a second to respond, and where it does not, there is nothing to complete.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import click

    from pybroker.terminal.session import Cluster

Complete = Callable[["click.Context", "click.Parameter", str], list[str]]

PATIENCE_S: Final = 1.0


def _completing(look: Callable[[Cluster], Iterable[str]]) -> Complete:
    """Return what click calls for the names that begin with a text. `look` returns all names."""

    def complete(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
        found: list[str] = []

        def ask() -> None:
            from pybroker.terminal.session import EXPECTED, Cluster

            try:
                with Cluster(_target(context.params)) as cluster:
                    found.extend(sorted(name for name in look(cluster) if name.startswith(begun)))
            except (*EXPECTED, OSError):
                return

        asking = threading.Thread(target=ask, name="completing", daemon=True)  # some waits in it have bounds of their own
        asking.start()
        asking.join(PATIENCE_S)
        return found if begun else [name for name in found if not name.startswith("__")]

    return complete


def _target(given: dict[str, Any]) -> Any:
    from pybroker.terminal.profiles import address_or_profile, target_of

    bootstrap, profile = given.get("bootstrap"), given.get("profile")
    if (source := given.get("source")) is not None:  # of `pybroker copy`
        bootstrap, profile = address_or_profile(source)
    return target_of(
        os.environ, bootstrap=bootstrap, profile=profile, command_config=given.get("command_config"), timeout_s=PATIENCE_S
    )


def _of_topics(cluster: Cluster) -> list[str]:
    from pybroker.terminal.configs import topic_names

    return topic_names(cluster)


topic_names: Final = _completing(_of_topics)
group_names: Final = _completing(lambda cluster: (str(one.group_id) for one in cluster.listed()))


def _of_transactions(cluster: Cluster) -> list[str]:
    from pybroker.terminal.transactions import listed

    return [row["transactional_id"] for row in listed(cluster)]


transactional_ids: Final = _completing(_of_transactions)
