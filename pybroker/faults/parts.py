"""The parts of a broker that rules change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pybroker.api.context import Services
    from pybroker.log.files.filesystem import Filesystem
    from pybroker.log.manager.manager import LogManager
    from pybroker.metadata.control import ClusterControl


class Membership(Protocol):
    """A broker's membership in its cluster."""

    @property
    def control(self) -> ClusterControl | None:
        """The part of the cluster; None for a broker that is alone."""


class Parts(Protocol):
    """One life of a broker, as rules see it.

    Attributes:
        services: what its handlers get; the coordinators among them are made when they are first needed.
    """

    services: Services
    filesystem: Filesystem
    log_manager: LogManager

    @property
    def membership(self) -> Membership:
        """The membership in the cluster."""

    def see_room(self) -> None:
        """Take notice that log directories have become full, or have room again."""
