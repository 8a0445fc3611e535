"""Keeps the use of clients at the quotas of the cluster, and has the dispatcher count only while there are any.

A change of quotas is in force with the image that has it: the short ways of requests that were like one before end with it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pybroker.api.context import Services
    from pybroker.api.dispatch import Dispatcher
    from pybroker.metadata.image import ClusterImage, ImageDelta
    from pybroker.network.context import ConnectionContext
    from pybroker.security.quotas.quotas import Quotas
    from pybroker.security.quotas.usage import Usage

logger = logging.getLogger(__name__)


def hold_to_quotas(services: Services, dispatcher: Dispatcher, connections: Callable[[], Iterable[ConnectionContext]]) -> None:
    """Hold clients to the quotas of the image, from now on. `connections` is called when quotas change, not before."""
    controller = services.controller

    def apply(quotas: Quotas) -> None:
        if services.usage is not None and quotas:
            services.usage.quotas = quotas
        elif services.usage is not None or quotas:
            services.usage = _usage_of(services, quotas) if quotas else None
            dispatcher.forget_routes()

    def follow(_old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        if delta.quotas_changed:
            apply(new.quotas)
            for connection in connections():
                connection.repeated = None

    controller.subscribe(follow)
    if quotas := controller.image.some_quotas:
        apply(quotas)
        logger.info("The quotas of %d users, clients and addresses are in force", len(quotas.by_id))


def _usage_of(services: Services, quotas: Quotas) -> Usage:
    from pybroker.security.quotas.usage import Usage, Window  # noqa: PLC0415  only with quotas

    config = services.config
    return Usage(
        quotas,
        Window(config.quota_window_num, 1000 * config.quota_window_size_seconds),
        Window(config.controller_quota_window_num, 1000 * config.controller_quota_window_size_seconds),
        services.clock.monotonic_ms,
    )
