"""Which quota holds for a request: Kafka's eight entities, the closest first, for each quota on its own."""

from __future__ import annotations

import pytest

from pybroker.security.quotas.entity import CLIENT_ID, IP, USER, Entity, check_value, entity_of
from pybroker.security.quotas.quotas import Limit, Quotas

RATE = "producer_byte_rate"

CLOSEST_FIRST: list[tuple[Entity, tuple[str, str]]] = [
    (((USER, "u"), (CLIENT_ID, "c")), ("u", "c")),
    (((USER, "u"), (CLIENT_ID, None)), ("u", "c")),
    (((USER, "u"),), ("u", "")),
    (((USER, None), (CLIENT_ID, "c")), ("u", "c")),
    (((USER, None), (CLIENT_ID, None)), ("u", "c")),
    (((USER, None),), ("u", "")),
    (((CLIENT_ID, "c"),), ("", "c")),
    (((CLIENT_ID, None),), ("", "c")),
]


def quotas_of(*entities: tuple[Entity, dict[str, float]]) -> Quotas:
    return Quotas({str(index): one for index, one in enumerate(entities)})


@pytest.mark.parametrize("first", range(len(CLOSEST_FIRST)))
def test_the_closest_entity_holds(first: int) -> None:
    quotas = quotas_of(*((entity, {RATE: float(at)}) for at, (entity, _) in enumerate(CLOSEST_FIRST) if at >= first))
    assert quotas.limits("u", "c").get(RATE) == Limit(float(first), *CLOSEST_FIRST[first][1])
    assert quotas.limits("u", "c").get("consumer_byte_rate") is None


def test_each_quota_is_looked_up_on_its_own() -> None:
    quotas = quotas_of((((USER, "u"),), {RATE: 1.0}), (((CLIENT_ID, None),), {"request_percentage": 2.0}))
    assert quotas.limits("u", "c").get("request_percentage") == Limit(2.0, "", "c")
    assert quotas.limits("other", "c").get(RATE) is None


def test_an_address_has_its_own_rate_or_the_default() -> None:
    key = "connection_creation_rate"
    quotas = quotas_of((((IP, "::1"),), {key: 5.0}), (((IP, None),), {key: 9.0}))
    assert (quotas.connection_rate("::1"), quotas.connection_rate("127.0.0.1")) == (5.0, 9.0)
    assert quotas_of().connection_rate("::1") is None


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([], "Invalid empty client quota entity"),
        ([(USER, "u"), (USER, "v")], "duplicate entity entry user"),
        ([("group", "g")], "Unhandled client quota entity type: group"),
        ([(USER, "")], "Empty user not supported"),
        ([(USER, "u"), (IP, "::1")], "Invalid empty client quota entity"),
    ],
)
def test_an_entity_that_cannot_be_is_refused(parts: list[tuple[str, str | None]], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        entity_of(parts)


def test_the_parts_of_an_entity_have_an_order() -> None:
    assert entity_of([(CLIENT_ID, None), (USER, "u")]) == ((USER, "u"), (CLIENT_ID, None))


@pytest.mark.parametrize(
    ("key", "value", "is_valid"),
    [
        (RATE, 1.0, True),
        (RATE, 1.5, False),
        (RATE, 0.0, False),
        (RATE, float("nan"), False),
        ("request_percentage", 0.5, True),
        ("connection_creation_rate", 1.0, False),
        ("x", 1.0, False),
    ],
)
def test_values_are_those_of_kafka(key: str, value: float, *, is_valid: bool) -> None:
    if is_valid:
        check_value(((USER, "u"),), key, value)
    else:
        with pytest.raises(ValueError, match=key):
            check_value(((USER, "u"),), key, value)
