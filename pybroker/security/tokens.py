"""Delegation tokens: what a token is, and the HMAC by which it proves itself.

A token's HMAC follows from its id and from the secret key of the brokers. No part of the broker stores it, so that the metadata
has nothing by which someone could log in.

Source: TokenInformation, DelegationTokenManager.createHmac; KIP-48, KIP-373.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig


class Token(NamedTuple):
    """A token. The principals are `TYPE:NAME`; times are in ms since 1970.

    Attributes:
        owner: the principal of a client that logs in with the token.
        requester: the principal that has created it.
        renewers: those that may renew and expire it, beside the owner.
        max_ms: the time that no renewal exceeds.
        expires_ms: the time after which it is not valid.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the token is not valid any more."""
        return min(self.max_ms, self.expires_ms) < now_ms

    def may_be_renewed_by(self, principal: str) -> bool:
        """Return whether a principal may change when the token expires."""
        return principal == self.owner or principal in self.renewers

    @property
    def principals(self) -> frozenset[str]:
        """The principals that may see the token, because it is theirs in one way or another."""
        return frozenset((self.owner, self.requester, *self.renewers))


def secret_key_of(config: BrokerConfig) -> str | None:
    """Return the secret key; None where delegation tokens are off."""
    key, older = config.delegation_token_secret_key, config.delegation_token_master_key
    return (older if key is None else key) or None


def hmac_of(secret_key: str, token_id: str) -> bytes:
    """Return the HMAC of a token: 64 bytes. In base64 it is the token's password."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")
