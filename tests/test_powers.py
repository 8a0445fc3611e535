"""A lasting cause is logged at its 1st, 10th, 100th... occurrence."""

from __future__ import annotations

from pybroker.powers import is_power_of_ten


def test_the_first_and_each_tenfold_are_powers_of_ten() -> None:
    assert [count for count in range(1, 20_000) if is_power_of_ten(count)] == [1, 10, 100, 1_000, 10_000]
