"""Powers of ten, by which a log thins out what happens again and again."""

from __future__ import annotations


def is_power_of_ten(count: int) -> bool:
    """Return whether this count of equal events is 1, 10, 100...: the events that have a line in the log."""
    return str(count).strip("0") == "1"
