"""The function that takes the requests of clients: the dispatcher, or rules of faults in front of it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pybroker.broker.joining import StartError

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig
    from pybroker.metadata.controller import Controller
    from pybroker.network.context import RequestHandler

logger = logging.getLogger(__name__)


def handler_of(dispatcher: RequestHandler, config: BrokerConfig, controller: Controller) -> RequestHandler:
    """Return the dispatcher itself, unless the configuration has a file of faults. Raises StartError for a fault in that."""
    if not config.pybroker_faults_file:
        return dispatcher
    from pybroker.faults.about import names_in  # noqa: PLC0415  only where faults are wanted
    from pybroker.faults.faults import Faults  # noqa: PLC0415

    faults = Faults()
    try:
        rules = faults.load(config.pybroker_faults_file)
    except (OSError, ValueError) as error:
        raise StartError(f"pybroker.faults.file={config.pybroker_faults_file}: {error}") from error
    logger.warning("Requests go wrong by %d rules of %s", len(rules), config.pybroker_faults_file)
    return faults.acting(dispatcher, names_in(controller))
