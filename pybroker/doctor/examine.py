"""The whole examination: the bootstrap address, and each broker that it lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from pybroker.doctor.advice import ailments, bootstrap_problem, broker_problem, verdict
from pybroker.network.limits import host_and_port

if TYPE_CHECKING:
    from pybroker.doctor.findings import Look
    from pybroker.model import BrokerId

Report = Callable[[str], None]


class Finding(NamedTuple):
    """A finding at an address, which the cluster advertises for `broker_id`; or, without an address, a lack of the cluster.

    `problem` is None where a client works.
    """

    problem: str | None
    look: Look | None = None
    broker_id: BrokerId | None = None

    def as_row(self) -> dict[str, Any]:
        """Return the finding as a line of JSON has it."""
        look = self.look
        response = None if look is None else look.response
        return {
            "address": None if look is None else str(look),
            "broker": self.broker_id,
            "connections": {} if look is None else {ip: None if why is None else why.value for ip, why in look.attempts},
            "software": None if response is None else response.software.value,
            "cluster": None if response is None else response.cluster_id,
            "responds_as": None if response is None else response.node_id,
            "problem": self.problem,
        }


def examine(host: str, port: int, look: Callable[[str, int, Report], Look], report: Report, timeout_s: float) -> list[Finding]:
    """Report what a client of host:port meets, line by line as it is found. Returns a finding for each address, that of host:port
    first, and one for each lack of the cluster. The client works and the cluster lacks nothing when none has a problem.

    `look` reports what it does and finds at an address; each of its steps takes at most `timeout_s`.
    """

    def detail(line: str) -> None:
        report(f"  {line}")

    report(f"Bootstrap {host_and_port(host, port)} (each step takes {timeout_s:g} s at most)")
    bootstrap = look(host, port, detail)
    problem = bootstrap_problem(bootstrap)
    findings = [Finding(problem, bootstrap)]
    if problem is None:
        assert bootstrap.response is not None
        for broker in bootstrap.response.brokers:
            report(f"Broker {broker.node_id} is advertised as {broker}")
            found = look(broker.host, broker.port, detail)
            findings.append(Finding(broker_problem(bootstrap, broker, found), found, broker.node_id))
    report("")
    for line in verdict(bootstrap, [one.problem for one in findings if one.problem is not None]):
        report(line)
    return findings + [Finding(text) for text in ailments(bootstrap)]
