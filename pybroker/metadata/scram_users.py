"""The SCRAM credentials of users, in the metadata store: changes as AlterUserScramCredentials requests them.

A user is a resource of the kind `scram`, whose values are credentials by the names of their mechanisms. The resource without a
name has a secret of the cluster, from which users that do not exist get salts. It is made with the first user.

Source: ScramControlManager, ScramImage; KIP-554, KIP-900.
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.metadata.delegation_tokens import token_of
from pybroker.metadata.image import ConfigResource
from pybroker.metadata.plan import Plan
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.security.sasl.scram_credentials import (
    BY_NUMBER,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISMS,
    SALT_BYTES,
    Credential,
    ScramMechanism,
    decode,
    of_salted_password,
)
from pybroker.security.sasl.token_logins import TokenLogin, TokenLogins

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pybroker.metadata.image import ClusterImage
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)

SCRAM_KIND: Final = "scram"
CHANGES_MAX: Final = 1_000
"""The number of users that one request may change."""
_SECRET: Final = "secret"  # noqa: S105  the name of a value
_NO_USER: Final = "Username must not be empty"
_OF_NONE: Final = {
    name: of_salted_password(one, b"", bytes(SALT_BYTES), ITERATIONS_MIN).encode() for name, one in MECHANISMS.items()
}
_TWICE: Final = "A user credential cannot be altered twice in the same request"


class Alteration(NamedTuple):
    """A credential to set; one to delete has no salted password."""

    user: str
    mechanism: int
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes | None = None


class ScramUsers:
    """The credentials of the cluster's users and delegation tokens, as the newest image has them; of tokens only with the secret
    key.
    """

    __slots__ = ("_image", "_own_secret", "_tokens")

    def __init__(self, image: Callable[[], ClusterImage], secret_key: str | None = None) -> None:
        self._image = image
        self._own_secret = secrets.token_hex(32)
        self._tokens = None if secret_key is None else TokenLogins(lambda token_id: token_of(image(), token_id), secret_key)

    def credential(self, mechanism: ScramMechanism, user: str) -> Credential | None:
        """Return the credential of a user; None if there is none."""
        text = self._image().configs_of(SCRAM_KIND, user).get(mechanism.name) if user else None
        try:
            found = decode(text or _OF_NONE[mechanism.name])  # the same work for a user that does not exist
        except ValueError:
            logger.error("The %s credential of user %r cannot be read: set it again", mechanism.name, user)  # noqa: TRY400  a value
            return None
        return None if text is None else found

    def token(self, mechanism: ScramMechanism, token_id: str) -> TokenLogin | None:
        """Return what a delegation token logs in to; None if there is none."""
        return None if self._tokens is None else self._tokens.login(mechanism, token_id)

    def secret(self) -> bytes:
        """Return a secret of the cluster; as long as no user exists, one of this broker."""
        return self._image().configs_of(SCRAM_KIND, "").get(_SECRET, self._own_secret).encode()


def described(image: ClusterImage, user: str) -> list[tuple[int, int]]:
    """Return the number of the mechanism, and the iterations, of each credential of a user."""
    values = image.configs_of(SCRAM_KIND, user) if user else {}
    return sorted((MECHANISMS[name].number, decode(text).iterations) for name, text in values.items() if name in MECHANISMS)


def users(image: ClusterImage) -> list[str]:
    """Return all users with credentials."""
    return [name for kind, name in image.configs if kind == SCRAM_KIND and name]


def plan_alterations(image: ClusterImage, alterations: Sequence[Alteration]) -> Pausing[Plan]:
    """Make a plan with an error or None for each of `alterations`. It yields after each.

    A user that is named twice is DUPLICATE_RESOURCE, and unchanged.
    """
    plan = Plan()
    count: dict[str, int] = {}
    for one in alterations:
        count[one.user] = count.get(one.user, 0) + 1
    for one in alterations:
        error = _refusal(image, one)
        if error is None and count[one.user] > 1:
            error = KafkaError(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
        plan.errors.append(error)
        if error is None:
            _change(plan, image, one)
        yield
    if any(one.salted_password is not None for one in alterations) and plan.entries:
        resource = ConfigResource(SCRAM_KIND, "")
        if resource not in image.configs:
            plan.change_configs(image, resource, {_SECRET: secrets.token_hex(32)})
    return plan


def _change(plan: Plan, image: ClusterImage, one: Alteration) -> None:
    mechanism, values = BY_NUMBER[one.mechanism], dict(image.configs_of(SCRAM_KIND, one.user))
    if one.salted_password is None:
        del values[mechanism.name]
        plan.notes.append(f"User {one.user!r} has no {mechanism.name} credential any more")
    else:
        values[mechanism.name] = of_salted_password(mechanism, one.salted_password, one.salt, one.iterations).encode()
        plan.notes.append(f"User {one.user!r} has a new {mechanism.name} credential")
    plan.change_configs(image, ConfigResource(SCRAM_KIND, one.user), values)


def _refusal(image: ClusterImage, one: Alteration) -> KafkaError | None:
    if not one.user:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, _NO_USER)
    mechanism = BY_NUMBER.get(one.mechanism)
    if mechanism is None:
        return KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if one.salted_password is None:
        if mechanism.name in image.configs_of(SCRAM_KIND, one.user):
            return None
        return KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    if one.iterations < ITERATIONS_MIN:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if one.iterations > ITERATIONS_MAX:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return None
