"""Makes the coordinators of a broker: each of them as soon as its topic exists.

In a cluster, a broker leads partitions of `__consumer_offsets` and `__transaction_state` that the first request to another broker
has created, and those that it gets when another broker dies. What they hold continues without a request: transactions end or time
out, offsets expire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pybroker.metadata.names import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pybroker.metadata.control import ClusterControl
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.image import ClusterImage, ImageDelta


class Coordinator(Protocol):
    """The coordinator of groups, or that of transactions."""

    def follow_leadership(self) -> None:
        """Load and unload partitions by what this broker leads now."""


def coordinate(
    controller: Controller,
    groups: Callable[[], Coordinator],
    transactions: Callable[[], Coordinator],
    control: ClusterControl | None,
) -> None:
    """Make the coordinators whose topics exist, and each other one when its topic is created, by functions that make them once.

    The replicas must follow the image before. When the broker steps down, the coordinators do as well, and clients that wait get
    their responses.
    """
    makers = {OFFSETS_TOPIC: groups, TRANSACTION_STATE_TOPIC: transactions}

    def follow(_old: ClusterImage, _new: ClusterImage, delta: ImageDelta) -> Iterator[None] | None:
        names = [topic.name for topic in delta.added if topic.name in makers]
        return make(names) if names else None

    def make(names: list[str]) -> Iterator[None]:
        for name in names:
            makers[name]()
            yield

    def present() -> list[Coordinator]:
        return [maker() for name, maker in makers.items() if name in controller.image.topics]

    controller.subscribe(follow)
    present()
    if control is not None:
        replicas_step_down = control.step_down

        def step_down() -> None:
            replicas_step_down()
            for coordinator in present():
                coordinator.follow_leadership()

        control.step_down = step_down
