"""The whole examination: the bootstrap address, and each broker that it lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pybroker.doctor.advice import ailments, bootstrap_problem, broker_problem, verdict
from pybroker.network.limits import host_and_port

if TYPE_CHECKING:
    from pybroker.doctor.findings import Look

Report = Callable[[str], None]


def examine(host: str, port: int, look: Callable[[str, int, Report], Look], report: Report, timeout_s: float) -> bool:
    """Report what a client of host:port meets, line by line as it is found. Returns whether the client would work, and the
    cluster lacks nothing.

    `look` reports what it does and finds at an address; each of its steps takes at most `timeout_s`.
    """

    def detail(line: str) -> None:
        report(f"  {line}")

    report(f"Bootstrap {host_and_port(host, port)} (each step takes {timeout_s:g} s at most)")
    bootstrap = look(host, port, detail)
    problem = bootstrap_problem(bootstrap)
    problems = [] if problem is None else [problem]
    if problem is None:
        assert bootstrap.response is not None
        for broker in bootstrap.response.brokers:
            report(f"Broker {broker.node_id} is advertised as {broker}")
            found = look(broker.host, broker.port, detail)
            problem = broker_problem(bootstrap, broker, found)
            if problem is not None:
                problems.append(problem)
    report("")
    for line in verdict(bootstrap, problems):
        report(line)
    return not problems and not any(ailments(bootstrap))
