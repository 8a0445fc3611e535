"""The function that takes the requests of clients: the dispatcher, or what tests put in front of it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pybroker.broker.joining import StartError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pybroker.config.broker import BrokerConfig
    from pybroker.faults.faults import Faults
    from pybroker.faults.parts import Parts
    from pybroker.faults.trail import Trail
    from pybroker.network.context import RequestHandler
    from pybroker.times.lanes import Lanes

logger = logging.getLogger(__name__)


def faults_of(config: BrokerConfig) -> Faults | None:
    """Return the rules of faults; None if the configuration has neither a file of them nor a listener that can add some.

    Raises StartError for a fault in the file.
    """
    if not config.pybroker_faults_file and not config.pybroker_admin_listener:
        return None
    from pybroker.faults.faults import Faults  # noqa: PLC0415  only where faults are wanted

    faults = Faults()
    load_file(faults.load, config)
    return faults


def load_file(load: Callable[[str], Sequence[object]], config: BrokerConfig) -> None:
    """Load the rules of the file that the configuration names, if any. Raises StartError for a fault in it."""
    if not config.pybroker_faults_file:
        return
    try:
        rules = load(config.pybroker_faults_file)
    except (OSError, ValueError) as error:
        raise StartError(f"pybroker.faults.file={config.pybroker_faults_file}: {error}") from error
    logger.warning("Requests go wrong by %d rules of %s", len(rules), config.pybroker_faults_file)


def trail_of(config: BrokerConfig) -> Trail | None:
    """Return what keeps the last requests; None if no listener shows them, or none are to be kept."""
    if not config.pybroker_admin_listener or not config.pybroker_admin_requests:
        return None
    from pybroker.faults.trail import Trail  # noqa: PLC0415  only where requests are shown

    return Trail(config.pybroker_admin_requests)


def as_configured(dispatcher: RequestHandler, config: BrokerConfig) -> RequestHandler:
    """Return the dispatcher itself, or what refuses the requests that the configured release of Kafka does not know.

    Raises StartError in a cluster, whose brokers need all versions of each other.
    """
    name = config.pybroker_as_version
    if name is None:
        return dispatcher
    from pybroker.api.as_release import as_release  # noqa: PLC0415  only where a release is wanted
    from pybroker.api.releases import release  # noqa: PLC0415

    if config.is_metadata_shared:
        raise StartError(f"pybroker.as.version={name}: is for a broker that is alone, but metadata.store is that of a cluster")
    logger.info("Serving as Kafka %s: requests that it does not know are refused", name)
    return as_release(release(name), dispatcher)


def handler_of(
    dispatcher: RequestHandler, broker: Parts, faults: Faults | None, trail: Trail | None, lanes: Lanes | None = None
) -> RequestHandler:
    """Return the dispatcher itself, or what lets requests go wrong, keeps them, and has them wait while time passes in front of
    it. Rules act on `broker` then.
    """
    if lanes is not None:
        from pybroker.times.held import held  # noqa: PLC0415  only where time is moved

        return held(handler_of(dispatcher, broker, faults, trail), lanes)
    if faults is None and trail is None:
        return dispatcher
    from pybroker.faults.about import names_in  # noqa: PLC0415  as above

    name_of, handler = names_in(broker.services.controller), dispatcher
    if faults is not None:
        faults.open(broker)
        handler = faults.acting(dispatcher, name_of)
    return handler if trail is None else trail.watching(handler, name_of)
