"""Prints the tables of a result file of `benchmarks.latency`, as they stand in benchmarks/results/.

    python -m benchmarks.latency_table FILE

A figure is the median of the rounds, a maximum that of all rounds. A sign stands between ours and Kafka's: `<` where ours is
less, `>` where ours is more, `=` where the difference is below the spread of the rounds. The spread is the distance of the second
from the last but one of the rounds in order, of the broker for which it is larger.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from benchmarks import peers, result_file
from benchmarks.open_loop import KINDS
from benchmarks.peers import KAFKA, OURS
from benchmarks.result_file import Line

CLIENT: Final = "client"
"""The cell of one client that sends a record every 5 ms, and one that fetches one."""

P999_SAMPLES: Final = 20_000
P99_BOUND_MS: Final = 10
P999_BOUND_MS: Final = 25
LATENESS: Final = KINDS[-1]
PERCENTILES: Final = {"p50_ms": "p50", "p99_ms": "p99", "p999_ms": "p99.9"}
NOTHING: Final = "-"


class Key(NamedTuple):
    """A cell: the load, the rate or CLIENT, and what was measured."""

    beside: str
    cell: str
    kind: str


class Rounds:
    """The measurements of a run's rounds."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines: dict[Key, dict[str, list[Line]]] = {}
        self.verdicts: dict[str, Counter[str]] = {name: Counter() for name in PERCENTILES.values()}
        for line in lines:
            key = Key(line["beside"], line["cell"], line["kind"])
            self._lines.setdefault(key, {}).setdefault(line["broker"], []).append(line)

    @property
    def keys(self) -> list[Key]:
        """The cells, in the order in which they were measured."""
        return list(self._lines)

    def of(self, key: Key, broker: str, name: str) -> list[float]:
        """Return the rounds' figures."""
        found = self._lines.get(key, {}).get(broker, [])
        return [line[name] for line in found if not math.isnan(line[name])]

    def samples(self, key: Key) -> int:
        """Return the number of samples in all rounds, of the broker that has fewer."""
        return int(min((sum(self.of(key, broker, "requests")) for broker in self._lines[key]), default=0))

    def pair(self, key: Key, name: str, *, is_judged: bool = False) -> str:
        """Return the medians of ours and Kafka's with the sign, which counts as a verdict if the cell is judged."""
        ours, theirs = self.of(key, OURS, name), self.of(key, KAFKA, name)
        if not (ours and theirs):
            return text(statistics.median(ours or theirs)) if ours or theirs else NOTHING
        sign = compare(ours, theirs)
        if is_judged:
            self.verdicts[PERCENTILES[name]][sign] += 1
        return f"{text(statistics.median(ours))} {sign} {text(statistics.median(theirs))}"

    def largest(self, key: Key) -> str:
        found = (self.of(key, broker, "max_ms") for broker in (OURS, KAFKA))
        return ", ".join(text(max(each)) for each in found if each)

    def lateness(self, key: Key) -> str:
        found = (self.of(key._replace(kind=LATENESS), broker, "p99_ms") for broker in (OURS, KAFKA))
        return ", ".join(text(statistics.median(each)) for each in found if each)


def compare(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Return the sign between two lists of rounds."""
    difference = statistics.median(ours) - statistics.median(theirs)
    if abs(difference) <= max(spread(ours), spread(theirs)):
        return "="
    return "<" if difference < 0 else ">"


def spread(rounds: Sequence[float]) -> float:
    """Return how far rounds differ, without the lowest and the highest if there are at least four."""
    ordered = sorted(rounds)
    if len(ordered) >= 4:
        ordered = ordered[1:-1]
    return ordered[-1] - ordered[0]


def text(milliseconds: float) -> str:
    return f"{milliseconds:.0f}" if milliseconds >= 100 else f"{milliseconds:.2f}" if milliseconds < 1 else f"{milliseconds:.3g}"


def rate_rows(rounds: Rounds) -> list[list[str]]:
    """Return the rows of the rates; p99.9 stands where a cell has 20,000 samples."""
    rows = []
    for key in rounds.keys:
        if key.cell == CLIENT or key.kind == LATENESS:
            continue
        p999 = rounds.pair(key, "p999_ms", is_judged=True) if rounds.samples(key) >= P999_SAMPLES else NOTHING
        p50, p99 = (rounds.pair(key, name, is_judged=True) for name in ("p50_ms", "p99_ms"))
        rows.append([*key, p50, p99, p999, rounds.largest(key), rounds.lateness(key), str(rounds.samples(key))])
    return rows


def client_rows(rounds: Rounds) -> list[list[str]]:
    """Return the rows of the client that sends little, with what is above the bounds."""
    rows = []
    for key in rounds.keys:
        if key.cell != CLIENT or key.kind == LATENESS:
            continue
        above = []
        for name, bound in (("p99_ms", P99_BOUND_MS), ("p999_ms", P999_BOUND_MS)):
            ours, theirs = rounds.of(key, OURS, name), rounds.of(key, KAFKA, name)
            if ours and statistics.median(ours) > bound:
                above.append(f"{PERCENTILES[name]} above {bound} ms")
            if ours and theirs and compare(ours, theirs) == ">":
                above.append(f"{PERCENTILES[name]} above Kafka's")
        pairs = [rounds.pair(key, name) for name in PERCENTILES]
        held = ", ".join(above) or "yes"
        rows.append([key.beside, key.kind, *pairs, rounds.largest(key), rounds.lateness(key), str(rounds.samples(key)), held])
    return rows


def show(lines: Sequence[Line]) -> None:
    """Print the tables."""
    run = next(line for line in lines if line["what"] == "run")
    options = run["options"]
    rounds = Rounds(line for line in lines if line["what"] == "cell")
    busy = f"All cores were busy with other work for {options['busy']} % of the time. " if options["busy"] else ""
    print(f"\n{run['began']}. {run['machine']}. {busy}Medians of {options['rounds']} rounds, in ms: ours, then Kafka's.")
    ends = ["max", "generator late, p99", "samples"]
    peers.table("Fixed rates", ["beside", "requests/s", "what", *PERCENTILES.values(), *ends], rate_rows(rounds))
    for name, found in rounds.verdicts.items():
        if found:
            print(f"\n{name}: less than Kafka's in {found['<']} cells, a tie in {found['=']}, more in {found['>']}.")
    header = ["beside", "what", *PERCENTILES.values(), *ends, "within the bounds"]
    peers.table("A client that sends a record every 5 ms, and one that fetches", header, client_rows(rounds))
    failures = [line for line in lines if line["what"] == "failure"]
    if failures:
        rows = [(one["broker"], one["beside"], one["cell"], one["round"], one["error"].replace("|", "/")) for one in failures]
        peers.table("Cells that failed", ["broker", "beside", "cell", "round", "error"], rows)
    if lines[-1]["what"] != "end":
        print("\nThe run did not come to its end.")


if __name__ == "__main__":
    show(result_file.read(result_file.one_argument(__doc__)))
