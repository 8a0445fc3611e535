"""A wrong name of a topic, a group, a transactional id or a setting is refused with the names that may have been meant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.listed import did_you_mean
from pybroker.terminal import writing
from pybroker.testing import Broker, ThreadBroker
from tests.cli.cluster import commit, lines, refusal

TOPIC, GROUP, ID = "Did you mean 'orders'?", "Did you mean 'kitchen'?", "Did you mean 'cook'?"
SETTING = "Did you mean 'retention.ms'"


@pytest.fixture(scope="module")
def broker() -> Iterator[ThreadBroker]:
    with Broker.in_thread({"auto.create.topics.enable": "false"}) as broker:
        broker.create_topic("orders")
        lines(broker.bootstrap, "produce", "orders", "1", "--transactional-id", "cook")
        commit(broker.bootstrap, "kitchen", "orders", {0: 0})
        yield broker


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("topics describe order", TOPIC),
        ("topics alter order -p 4", TOPIC),
        ("topics delete order --yes", TOPIC),
        ("consume order", TOPIC),
        ("consume order --group kitchen", TOPIC),
        ("produce order 1", TOPIC),
        ("records delete order:0 --before end --yes", TOPIC),
        ("configs get --topic order", TOPIC),
        ("configs set --topic order retention.ms=1", TOPIC),
        ("groups reset kitchen --topic order --to end", TOPIC),
        ("copy order --from {at} --to {at} --state {folder}/copy", TOPIC),
        ("export {folder}/export order", TOPIC),
        ("groups describe kitchn", GROUP),
        ("groups delete kitchn --yes", GROUP),
        ("groups delete-offsets kitchn orders --yes", GROUP),
        ("groups reset kitchn --to end", GROUP),
        ("transactions describe cok", ID),
        ("transactions abort cok --yes", ID),
        ("topics create new --config retention.mss=1", SETTING),
        ("topics alter orders --config retention.mss=1", SETTING),
        ("topics alter orders --unset retention.mss", SETTING),
        ("configs get --topic orders retention.mss", SETTING),
        ("configs set --topic orders retention.mss=1", SETTING),
        ("configs unset --topic orders retention.mss", SETTING),
        ("configs set --group kitchen consumer.session.timeout.m=1", "Did you mean 'consumer.session.timeout.ms'"),
        ("configs set --user u producer_byte_rat=1", "Did you mean 'producer_byte_rate'"),
    ],
)
def test_what_may_have_been_meant_ends_the_error(
    broker: ThreadBroker, words: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "CREATION_S", 0.0)
    refused = refusal(broker.bootstrap, *words.format(at=broker.bootstrap, folder=tmp_path).split())
    assert meant in refused
    assert refused.endswith("?")
    assert refused.count("?") == 1


def test_a_setting_that_brokers_accept_although_they_do_not_know_it_is_remarked(broker: ThreadBroker) -> None:
    done = lines(broker.bootstrap, "configs", "set", "--all-brokers", "log.cleaner.thread=1")
    assert done[1].startswith("The brokers keep a setting that they do not know. Did you mean 'log.cleaner.threads'")
    assert len(lines(broker.bootstrap, "configs", "set", "--broker", "1", "log.cleaner.threads=1")) == 1


def test_nothing_is_suggested_where_nothing_is_similar(broker: ThreadBroker) -> None:
    assert did_you_mean("zzz", ["orders", "kitchen"]) == ""
    assert did_you_mean("orders", ["orders"]) == ""
    assert did_you_mean("order", ["orders", "borders", "zzz"]) == ". Did you mean 'orders' or 'borders'?"
    assert refusal(broker.bootstrap, "topics", "describe", "zzz").endswith("there is no such topic")
    assert "Did you mean" not in refusal(broker.bootstrap, "configs", "set", "--topic", "orders", "retention.ms=x")
