"""What all test processes have in common, those of the unit tests and of the integration tests.

Random tests draw the same every time: hypothesis derives its draws from the test's source, `random` is seeded with the test's
name before each, and `make` fixes the order of sets of texts (PYTHONHASHSEED). `make random` draws other values.

A test that takes too much memory fails by name with a MemoryError at the line that asked for it, instead of taking the machine
down. The limit is on what the process allocates itself (RLIMIT_DATA, which Linux enforces for maps too). It is not on the address
space, because uvloop, mapped files and the sanitizers reserve far more than they use. Children start without the limit, because
a JVM sizes itself by it. TEST_MEMORY_BYTES sets another limit; 0 sets none.

A test marked `judges_time` fails only if each of several attempts fails: what is long is long each time, and what only seems so,
because other processes have the machine, is not.
"""

from __future__ import annotations

import functools
import os
import random
import resource
import signal
import subprocess
import threading
from collections.abc import Generator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from pytest_rerunfailures import StatusDB  # type: ignore[import-untyped]

from testing import garbage, native_parts

SETTINGS: Final = "_hypothesis_internal_use_settings"
ATTEMPTS_OF_TIME: Final = 5
EXAMPLES: Final = 40
MEMORY_BYTES_MAX: Final = int(os.environ.get("TEST_MEMORY_BYTES", str(3 << 30)))

# No deadline for a single example, and no complaint that examples are slow to make: time is no property of what is tested. The
# examples are the same in each run, so more of them are a matter of `make random`, which draws others.
settings.register_profile(
    "pybroker",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    database=None,
    print_blob=True,
    max_examples=EXAMPLES,
)
settings.register_profile("random", settings.get_profile("pybroker"), derandomize=False, max_examples=300)
settings.load_profile("pybroker")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Refuse native parts that are out of date; limit this process, be it alone, the leader or a worker; listen to SIGINT."""
    stale = native_parts.stale()
    if stale:
        raise pytest.UsageError(f"native parts older than their sources: {', '.join(stale)}; `make native` compiles them")
    if MEMORY_BYTES_MAX:
        _limit_memory()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a background job of a shell
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        _count_attempts_here(config)


def _count_attempts_here(config: pytest.Config) -> None:
    """Let a worker count the attempts of its tests itself.

    pytest-rerunfailures asks the leader before each test, so that another worker may continue a test that ended its worker, which
    none of ours does. Its socket sends a message without a response and then a question: by Nagle's rule, and because Linux
    acknowledges late, no test would take less than 40 ms.
    """
    config.failures_db.sock.close()  # type: ignore[attr-defined]
    config.failures_db = StatusDB()  # type: ignore[attr-defined]


def pytest_report_header(config: pytest.Config) -> str:
    """Return the line that a reader of a failure needs."""
    profile = config.getoption("--hypothesis-profile") or "pybroker"
    return (
        f"draws: profile {profile}, hash seed {os.environ.get('PYTHONHASHSEED', 'random')}; memory: {MEMORY_BYTES_MAX >> 20} MiB"
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Make the collection of garbage quick, while the tests are found and when they run."""
    with garbage.none_while_tests_are_found():
        return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests that judge time have several attempts."""
    for item in items:
        if item.get_closest_marker("judges_time"):
            item.add_marker(pytest.mark.flaky(reruns=ATTEMPTS_OF_TIME - 1))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Collect the garbage of the test before, and seed `random`, also for the helpers that draw from it."""
    garbage.end_test()
    random.seed(f"{item.nodeid} {item.config.getoption('--hypothesis-seed')}")


@pytest.hookimpl(optionalhook=True, trylast=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport) -> None:
    """Let a run fail whose worker has ended in the middle of a test, because it hangs or crashes.

    With further attempts allowed, the test would count as tried again, although no worker is left that would do so.
    """
    report.outcome = "failed"
    report.longrepr = f"The worker ended while it ran {crashitem}: above are the stacks of its threads, or what the system says."


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Give a parametrized random test its settings back, which hypothesis wraps once for each case.

    Settings inside each other are read by recursion: after 950 cases of one function in one process it ends in a RecursionError.
    """
    function = getattr(item, "obj", None)
    function = getattr(function, "__func__", function)
    before = getattr(function, SETTINGS, None)
    yield
    if before is not None:
        setattr(function, SETTINGS, before)


def _limit_memory() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    limited = (MEMORY_BYTES_MAX, before[1])
    start, one_at_a_time = subprocess.Popen.__init__, threading.RLock()

    @functools.wraps(start)
    def start_without_limit(*args: Any, **kwargs: Any) -> None:
        with one_at_a_time:
            resource.setrlimit(resource.RLIMIT_DATA, before)
            try:
                start(*args, **kwargs)
            finally:
                resource.setrlimit(resource.RLIMIT_DATA, limited)

    subprocess.Popen.__init__ = start_without_limit  # type: ignore[method-assign]  # what it does for the caller is the same
    resource.setrlimit(resource.RLIMIT_DATA, limited)
