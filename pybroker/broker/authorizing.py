"""Makes the authorizer, where the configuration has one, and keeps it at the ACLs of the cluster.

A change of ACLs is in force with the image that has it: decisions that were kept end with it, and so do the short ways of
requests that were like an allowed one before.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pybroker.config.acl_settings import principals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pybroker.config.broker import BrokerConfig
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.image import ClusterImage, ImageDelta
    from pybroker.network.context import ConnectionContext
    from pybroker.security.acl.authorizer import Authorizer

logger = logging.getLogger(__name__)


def authorizer_of(
    config: BrokerConfig, controller: Controller, connections: Callable[[], Iterable[ConnectionContext]]
) -> Authorizer | None:
    """Return the authorizer with the ACLs of the cluster; None where everyone may do everything."""
    if not config.authorizer_class_name:
        return None
    from pybroker.security.acl.authorizer import Authorizer  # noqa: PLC0415  only with an authorizer

    super_users = principals(config.super_users)
    authorizer = Authorizer(super_users, allows_without_acl=config.allow_everyone_if_no_acl_found)
    authorizer.acls = controller.image.acls

    def follow(_old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        if delta.acls_changed:
            authorizer.acls = new.acls
            for connection in connections():
                connection.repeated = None

    controller.subscribe(follow)
    logger.info(
        "Requests are authorized by %d ACLs; %d super users; without an ACL everyone is %s",
        len(authorizer.acls),
        len(super_users),
        "allowed" if config.allow_everyone_if_no_acl_found else "denied",
    )
    return authorizer
