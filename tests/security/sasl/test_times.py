"""The CPU time of a login that fails does not show whether its user exists."""

from __future__ import annotations

import statistics
import time
from base64 import b64encode
from collections.abc import Callable

import pytest

from pybroker.metadata.image import ClusterImage, ConfigResource, ConfigsImage
from pybroker.metadata.members import NO_MEMBERS
from pybroker.metadata.scram_users import SCRAM_KIND, ScramUsers
from pybroker.model import BrokerId
from pybroker.security.sasl.exchange import Exchange, SaslError
from pybroker.security.sasl.plain import USER_PREFIX, Plain
from pybroker.security.sasl.scram import Scram
from pybroker.security.sasl.scram_credentials import SHA_256, SHA_512, ScramMechanism, of_salted_password

ROUNDS, LOGINS = 30, 30
SHARE_MAX = 0.08
"""By which part the medians may differ. A hash more or less would be a tenth and more."""
ATTEMPTS = 5
KNOWN = [f"user-{number:04}" for number in range(200)]
UNKNOWN = [f"nope-{number:04}" for number in range(200)]


def scram(mechanism: ScramMechanism) -> Callable[[], Exchange]:
    credential = of_salted_password(mechanism, b"salted", b"s" * 24, 4_096).encode()
    configs = {ConfigResource(SCRAM_KIND, name): ConfigsImage(values={mechanism.name: credential}) for name in KNOWN}
    configs[ConfigResource(SCRAM_KIND, "")] = ConfigsImage(values={"secret": "ab" * 32})
    image = ClusterImage(
        cluster_id="c", broker_id=BrokerId(1), members=NO_MEMBERS, topics={}, topics_by_id={}, revision=1, configs=configs
    )
    return Scram(mechanism, ScramUsers(lambda: image)).begin


def fail_by_scram(begin: Callable[[], Exchange], user: str) -> None:
    exchange = begin()
    nonce = exchange.respond(f"n,,n={user},r=abcdefgh".encode()).decode().partition(",")[0]
    with pytest.raises(SaslError):
        exchange.respond(f"c=biws,{nonce},p={b64encode(bytes(32)).decode()}".encode())


def fail_by_plain(begin: Callable[[], Exchange], user: str) -> None:
    with pytest.raises(SaslError):
        begin().respond(f"\0{user}\0wrong".encode())


def cpu_ns(fail: Callable[[str], None], users: list[str]) -> int:
    began = time.thread_time_ns()
    for user in users[:LOGINS]:
        fail(user)
    return time.thread_time_ns() - began


@pytest.mark.parametrize(
    ("begin", "fail"),
    [
        (scram(SHA_256), fail_by_scram),
        (scram(SHA_512), fail_by_scram),
        (Plain({f"{USER_PREFIX}{name}": "secret" for name in KNOWN}).begin, fail_by_plain),
    ],
    ids=["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"],
)
@pytest.mark.judges_time
def test_an_unknown_user_fails_after_the_same_work(
    begin: Callable[[], Exchange], fail: Callable[[Callable[[], Exchange], str], None]
) -> None:
    shares = []
    for _ in range(ATTEMPTS):
        pairs = [tuple(cpu_ns(lambda user: fail(begin, user), users) for users in (KNOWN, UNKNOWN)) for _ in range(ROUNDS)]
        known, unknown = (statistics.median(side) for side in zip(*pairs, strict=True))
        shares.append(abs(known - unknown) / known)
        if shares[-1] <= SHARE_MAX:
            return
    pytest.fail(f"the medians differ by {shares}")
