"""A story in which three clients do anything at any time, as members of either protocol, of one group."""

from __future__ import annotations

from random import Random

START = """set group.consumer.migration.policy=bidirectional
set offsets.retention.check.interval.ms=5000
topic t 3
topic u 1
"""
OWNS = ("none", "t-0", "t-1", "t-0,t-1", "t-0,t-1,t-2")
TOPICS = ("t", "u", "t,u")
RARE = (
    "restart", "admin deletes g", "admin commits g t-0=5", "admin forgets g t-0", "after 46s",
    "log refuses\nMEMBER reports\nlog accepts", "log refuses\nafter 46s\nlog accepts",
)  # fmt: skip
TIMES = "session=45s rebalance=10s"


def story_at_random(seed: int, line_count: int) -> str:
    """Return the story without its responses; the same seed gives the same story."""
    random = Random(seed)
    return START + "\n".join(_line(random) for _ in range(line_count))


def _line(random: Random) -> str:
    member = random.choice("abc")
    instance = " instance=i" if member == "a" else ""
    lines = [
        f"MEMBER enters g topics={random.choice(TOPICS)} rebalance=10s{instance}",
        *(f"MEMBER reports owns={random.choice(OWNS)}" for _ in range(2)),
        "MEMBER reports",
        "MEMBER reports topics=t,u",
        "MEMBER quits",
        "MEMBER quits awhile" if instance else "MEMBER quits",
        f"MEMBER joins g topics=t {TIMES} owns={random.choice(OWNS)}{instance}",
        f"MEMBER joins g fresh topics=t {TIMES}{instance}",
        *["MEMBER syncs"] * 2,
        "MEMBER beats",
        "MEMBER leaves",
        "MEMBER commits t-0=1 in=g",
        f"after {random.choice((1, 5, 11, 25))}s",
        random.choice(RARE),
    ]
    return random.choice(lines).replace("MEMBER", member)
