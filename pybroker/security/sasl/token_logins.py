"""Logins by SCRAM with a delegation token: the user is the token's id, and the password is its HMAC in base64.

The credentials are made from the HMAC at the first login with a token, which is some ms of work. They are kept in memory, because
nothing that follows from the secret key is stored.

Source: DelegationTokenCache, DelegationTokenManager.prepareScramCredentials, ScramServerCallbackHandler.
"""

from __future__ import annotations

import secrets
from base64 import b64encode
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.security.principal import name_of
from pybroker.security.sasl.scram_credentials import ITERATIONS_MIN, SALT_BYTES, Credential, ScramMechanism, of_salted_password
from pybroker.security.tokens import hmac_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.security.tokens import Token

CREDENTIALS_MAX: Final = 2_000
"""The number of credentials that are kept: one for each token and mechanism."""


class TokenLogin(NamedTuple):
    """The user as whom a client acts until `expires_ms`, if its password is that of the credential."""

    credential: Credential
    owner: str
    expires_ms: int


class TokenLogins:
    """The tokens of the cluster, as logins need them. `find` returns the token of an id, None if there is none."""

    __slots__ = ("_credentials", "_find", "_secret_key")

    def __init__(self, find: Callable[[str], Token | None], secret_key: str) -> None:
        self._find, self._secret_key = find, secret_key
        self._credentials: dict[tuple[str, str], Credential] = {}  # by mechanism and token, the oldest first

    def login(self, mechanism: ScramMechanism, token_id: str) -> TokenLogin | None:
        """Return what the exchange needs; None if the token does not exist."""
        token = self._find(token_id)
        if token is None:
            return None
        key = (mechanism.name, token_id)
        credential = self._credentials.get(key)
        if credential is None:
            if len(self._credentials) >= CREDENTIALS_MAX:
                del self._credentials[next(iter(self._credentials))]
            credential = self._credentials[key] = self._credential(mechanism, token_id)
        return TokenLogin(credential, name_of(token.owner), token.expires_ms)

    def _credential(self, mechanism: ScramMechanism, token_id: str) -> Credential:
        password, salt = b64encode(hmac_of(self._secret_key, token_id)).decode(), secrets.token_bytes(SALT_BYTES)
        return of_salted_password(mechanism, mechanism.salted_password(password, salt, ITERATIONS_MIN), salt, ITERATIONS_MIN)
