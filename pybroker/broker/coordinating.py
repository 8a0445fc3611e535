"""Makes the coordinators of a broker: each of them as soon as its topic exists.

In a cluster, a broker leads partitions of `__consumer_offsets` and `__transaction_state` that the first request to another broker
has created, and those that it gets when another broker dies. What they hold goes on without a request: transactions end or time
out, offsets expire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pybroker.metadata.controller import Controller
    from pybroker.metadata.image import ClusterImage, ImageDelta


def coordinate(controller: Controller, makers: Mapping[str, Callable[[], object]]) -> None:
    """Call those of `makers` whose topics exist, and each other one when its topic is created. The replicas must follow the image
    before.
    """

    def follow(_old: ClusterImage, _new: ClusterImage, delta: ImageDelta) -> Iterator[None] | None:
        names = [topic.name for topic in delta.added if topic.name in makers]
        return make(names) if names else None

    def make(names: list[str]) -> Iterator[None]:
        for name in names:
            makers[name]()
            yield

    controller.subscribe(follow)
    for name, maker in makers.items():
        if name in controller.image.topics:
            maker()
