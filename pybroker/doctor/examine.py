"""The whole examination: the bootstrap address, and each broker that it tells of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.doctor.advice import bootstrap_problem, broker_problem, facts, verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.doctor.findings import Look


def examine(host: str, port: int, look: Callable[[str, int], Look], say: Callable[[str], None]) -> bool:
    """Say what a client of host:port meets, line by line as it is found. Returns whether the client would work."""
    bootstrap = look(host, port)
    _say_all(say, f"Bootstrap {bootstrap}", bootstrap)
    problem = bootstrap_problem(bootstrap)
    problems = [] if problem is None else [problem]
    if problem is None:
        assert bootstrap.answer is not None
        for broker in bootstrap.answer.brokers:
            found = look(broker.host, broker.port)
            _say_all(say, f"Broker {broker.node_id} is advertised as {broker}", found)
            problem = broker_problem(bootstrap, broker, found)
            if problem is not None:
                problems.append(problem)
    say("")
    for line in verdict(bootstrap, problems):
        say(line)
    return not problems


def _say_all(say: Callable[[str], None], title: str, found: Look) -> None:
    say(title)
    for line in facts(found):
        say(f"  {line}")
