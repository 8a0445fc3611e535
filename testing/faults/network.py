"""Three brokers and an etcd in network namespaces, whose links can be cut. The clients are at another host, which reaches all."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Final

from testing.faults.clusters import NUMBERS, WithEtcd
from testing.hosts.links import Links, entered
from testing.hosts.namespaces import namespaces
from testing.process.broker import BrokerProcess
from testing.process.etcd_peer import EtcdPeer, Member

ETCD: Final = "etcd"
CLIENTS: Final = "clients"
LAG_MS: Final = 3000


def host(number: int) -> str:
    """Return the role of a broker's host."""
    return f"broker{number}"


class WithLinks(WithEtcd):
    """Each broker has a host of its own, and so has etcd, which is one member. Skips the test where no namespace can be made."""

    links: Links

    def _started_etcd(self, stack: ExitStack) -> EtcdPeer:
        self.links = Links(stack.enter_context(namespaces()), [*map(host, NUMBERS), ETCD, CLIENTS])
        stack.enter_context(entered(self.links.hosts[CLIENTS]))
        inside = self.links.hosts[ETCD].command()
        etcd = EtcdPeer([Member(self.folder, "etcd", host=self.links.address(ETCD), inside=inside)])
        stack.callback(etcd.members[0].kill)
        etcd.start()
        etcd.become_ready()
        return etcd

    def _broker(self, number: int, settings: dict[str, str]) -> BrokerProcess:
        own = {"listeners": f"PLAINTEXT://{self.links.address(host(number))}:0", "replica.lag.time.max.ms": str(LAG_MS)}
        command = self.links.hosts[host(number)].command(sys.executable, "-m", "pybroker", "start")
        return BrokerProcess(self.folder / str(number), settings | own, start_command=command)

    def address(self, number: int) -> str:
        """Return the address of a broker, with its port."""
        return f"{self.links.address(host(number))}:{self._brokers[number].port}"

    @property
    def bootstrap(self) -> str:
        return ",".join(map(self.address, NUMBERS))
