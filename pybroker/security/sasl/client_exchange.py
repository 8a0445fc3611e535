"""The client's part of a login: the tokens of each mechanism.

An exchange yields the client's tokens and takes the server's response to each. It ends when nothing is left to send, and what the
server had to prove is proved. It raises SaslError.

Source: PlainSaslClient, ScramSaslClient; RFC 4616, RFC 5802.
"""

from __future__ import annotations

import binascii
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final

from pybroker.security.sasl.exchange import SaslError
from pybroker.security.sasl.scram import CHANNEL_TEXT, HEADER, TOKEN_AUTH, escaped
from pybroker.security.sasl.scram_credentials import ITERATIONS_MAX, ITERATIONS_MIN, of_salted_password

if TYPE_CHECKING:
    from pybroker.security.sasl.scram_credentials import ScramMechanism

Tokens = Generator[bytes, bytes, None]

_SERVERS_FIRST: Final = re.compile(r"r=(?P<nonce>[!-+\--~]+),s=(?P<salt>[A-Za-z0-9/+=]+),i=(?P<iterations>[0-9]{1,9})(?:,.*)?")
_SERVERS_LAST: Final = re.compile(r"v=(?P<signature>[A-Za-z0-9/+=]+)(?:,.*)?")


def plain(user: str, password: str) -> Tokens:
    """Log in by PLAIN."""
    yield f"\0{user}\0{password}".encode()


def scram(
    mechanism: ScramMechanism, user: str, salted_password: Callable[[bytes, int], bytes], nonce: str, *, is_token: bool = False
) -> Tokens:
    """Log in by SCRAM. `salted_password` returns Hi of RFC 5802 for a salt and a number of iterations; a delegation token's id
    is a user, too.
    """
    bare = f"n={escaped(user)},r={nonce}{f',{TOKEN_AUTH}=true' if is_token else ''}"
    first = _match(_SERVERS_FIRST, (yield f"{HEADER}{bare}".encode()), "first")
    if not first["nonce"].startswith(nonce) or first["nonce"] == nonce:
        raise SaslError("the broker's first message has another nonce")
    salt, iterations = _decoded(first["salt"]), int(first["iterations"])
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise SaslError(f"the broker asks for {iterations} iterations, which must be {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    salted = salted_password(salt, iterations)
    credential = of_salted_password(mechanism, salted, salt, iterations)
    unproved = f"c={CHANNEL_TEXT},r={first['nonce']}"
    messages = f"{bare},{first[0]},{unproved}".encode()
    signature = mechanism.hmac(credential.stored_key, messages)
    proof = bytes(one ^ other for one, other in zip(mechanism.client_key(salted), signature, strict=True))
    last = _match(_SERVERS_LAST, (yield f"{unproved},p={b64encode(proof).decode()}".encode()), "last")
    if not hmac.compare_digest(mechanism.hmac(credential.server_key, messages), _decoded(last["signature"])):
        raise SaslError("the broker has not proved that it knows the password")


def _match(pattern: re.Pattern[str], token: bytes, which: str) -> re.Match[str]:
    match = pattern.fullmatch(token.decode("utf-8", "replace"))
    if match is None:
        raise SaslError(f"the broker's {which} message is not that of SCRAM")
    return match


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error as error:
        raise SaslError("the broker's message is not base64") from error
