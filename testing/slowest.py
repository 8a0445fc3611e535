"""A plugin of pytest that prints what takes most processor time: `python -m testing.slowest` has the arguments of pytest.

Processor time is that of the test's process, with its threads and with the children that have ended. Other work on the machine
changes it less than it changes the time of the clock. The time of a file is that of its tests, without that of their import.
"""

from __future__ import annotations

import resource
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from typing import Any, Final

import pytest

ROWS: Final = 25
TABLES: Final = ("folders", "files", "tests")


def used_seconds() -> float:
    """Return the processor time that this process and its ended children have used."""
    used = [resource.getrusage(one) for one in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def rows(seconds: dict[str, float], table: str) -> Iterator[str]:
    """Yield the lines of one of `TABLES` from the seconds of each test, and last the sum of all."""
    total, tests = Counter[str](), Counter[str]()
    for name, used in seconds.items():
        path = name.partition("::")[0]
        key = {"folders": path.rpartition("/")[0], "files": path, "tests": name}[table]
        total[key] += round(1_000_000 * used)
        tests[key] += 1
    for key, used in [*total.most_common(ROWS), ("all", total.total())]:
        yield f"{used / 1_000_000:9.2f} s {tests[key] or len(seconds):6} {key}"


class Slowest:
    """Measures in the process that runs a test, and adds up in the process that gets the reports."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._before = used_seconds()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, Any, Any]:
        self._before = used_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Give the report of a phase what the phase has used; the name is free, and pytest-xdist transmits all attributes."""
        report = yield
        now = used_seconds()
        report.__dict__["used_seconds"], self._before = now - self._before, now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.__dict__.get("used_seconds", 0.0)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for table in TABLES:
            terminalreporter.section(f"processor time of {table}")
            for line in rows(self._seconds, table):
                terminalreporter.line(line)


def pytest_configure(config: pytest.Config) -> None:
    """Begin to measure, in every worker too, because each gets the same `-p`."""
    config.pluginmanager.register(Slowest())


if __name__ == "__main__":
    sys.exit(pytest.main(["-p", "testing.slowest", *sys.argv[1:]]))
