"""A short history of transactions with kills. Longer ones: `python -m integration.transactions.transaction_histories`."""

from __future__ import annotations

from collections.abc import Callable

from integration.transactions.transaction_histories import Size, run
from testing.process.broker import BrokerProcess
from testing.transactions.checker import problems
from testing.transactions.history import Outcome


def test_transactions_are_exact_although_the_broker_is_killed(start_broker: Callable[..., BrokerProcess]) -> None:
    history = run(start_broker(), 1, Size(writers=2, transactions=15, kills=2))
    assert problems(history) == []
    outcomes = [written.outcome for written in history.transactions]
    assert outcomes.count(Outcome.COMMITTED) > 5
    assert outcomes.count(Outcome.ABORTED) > 2
