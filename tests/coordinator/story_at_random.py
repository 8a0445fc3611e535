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
    "log refuses\nWHO reports\nlog accepts", "log refuses\nafter 46s\nlog accepts",
)  # fmt: skip
TIMES = "session=45s rebalance=10s"


def story_at_random(seed: int, line_count: int) -> str:
    """Return the story without its responses; the same seed gives the same story."""
    random = Random(seed)
    return START + "\n".join(_line(random) for _ in range(line_count))


def _line(random: Random) -> str:
    who = random.choice("abc")
    instance = " instance=i" if who == "a" else ""
    lines = [
        f"WHO enters g topics={random.choice(TOPICS)} rebalance=10s{instance}",
        *(f"WHO reports owns={random.choice(OWNS)}" for _ in range(2)),
        "WHO reports",
        "WHO reports topics=t,u",
        "WHO quits",
        "WHO quits awhile" if instance else "WHO quits",
        f"WHO joins g topics=t {TIMES} owns={random.choice(OWNS)}{instance}",
        f"WHO joins g fresh topics=t {TIMES}{instance}",
        *["WHO syncs"] * 2,
        "WHO beats",
        "WHO leaves",
        "WHO commits t-0=1 in=g",
        f"after {random.choice((1, 5, 11, 25))}s",
        random.choice(RARE),
    ]
    return random.choice(lines).replace("WHO", who)
