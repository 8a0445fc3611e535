"""The rules of faults, under a name for programs of users, and those of all brokers of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pybroker.faults.faults import Faults, named, rules_of_file
from pybroker.faults.rule import Rule, RuleError, rule_of

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ClusterFaults", "Faults", "Rule", "RuleError"]


class ClusterFaults(Mapping[int, Faults]):
    """The rules of the brokers of a cluster. `faults[node]` has those of one; the methods are about all of them.

    A rule of all brokers has one count: with `times=1`, it takes one request, whichever broker that comes to.
    """

    def __init__(self, nodes: Iterable[int]) -> None:
        self._by_node = {node: Faults() for node in nodes}

    def __getitem__(self, node: int) -> Faults:
        return self._by_node[node]

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_node)

    def __len__(self) -> int:
        return len(self._by_node)

    @property
    def rules(self) -> dict[str, Rule]:
        """The rules of all brokers by name, also those of only one of them."""
        return {name: rule for faults in self.values() for name, rule in faults.rules.items()}

    def add(self, **fields: Any) -> Rule:
        """Add a rule with the fields of Rule to all brokers, and return it. Raises RuleError, as for a name that is taken."""
        return self.put(rule_of(fields))

    def put(self, rule: Rule) -> Rule:
        """Add a rule to all brokers, and return it. Raises RuleError for a name that another rule has."""
        if rule.name in self.rules:
            raise RuleError(f"{rule.name}: another rule has this name")
        for faults in self.values():
            faults.put(rule)
        return rule

    def load(self, path: Path | str) -> list[Rule]:
        """Add the rules of a file of JSON or YAML to all brokers. Raises OSError, ValueError, and RuleError."""
        return [self.put(rule) for rule in rules_of_file(path)]

    def remove(self, name: str) -> None:
        """Remove a rule from all brokers that have it. Raises KeyError for a name that none has."""
        named(self.rules, name)
        for faults in self.values():
            if name in faults.rules:
                faults.remove(name)

    def clear(self) -> None:
        """Remove all rules of all brokers."""
        for faults in self.values():
            faults.clear()
