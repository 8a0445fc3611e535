"""How far each controller has followed the cluster's metadata, where the settings name several, as Kafka's do.

`quorum.standing` asks them, and DescribeQuorum shows them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pybroker.model import BrokerId

UNKNOWN: Final = -1


class ControllerStanding(NamedTuple):
    """A controller, which the others reach at `host:port`.

    `revision` is that of the last commit that it has, and `epoch` the number of the last election that it knows. Both are UNKNOWN
    where it does not respond.
    """

    node_id: BrokerId
    host: str
    port: int
    is_leader: bool = False
    epoch: int = UNKNOWN
    revision: int = UNKNOWN


AskControllers = Callable[[], Awaitable[Sequence[ControllerStanding]]]
"""A function that asks all controllers at once, for a second at most."""
