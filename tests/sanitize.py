"""The native extensions under AddressSanitizer and UndefinedBehaviorSanitizer: `make sanitize`, or `python -m tests.sanitize`.

A copy of the sources below build/sanitize gets extensions of its own, so that the extensions in use stay unchanged. The unit
tests that run native code, or the named tests, run there. The program needs gcc (or what CC names) with its sanitizers, on Linux.
The first fault ends the run with a report of the stacks. Leaks are not checked, because CPython itself keeps memory. Python makes
every allocation by malloc; otherwise the sanitizer would see arenas instead of objects.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PLACE: Final = ROOT / "build" / "sanitize"
REPORT: Final = PLACE / "report"
"""The prefix of the files with the sanitizers' reports, because a worker's own output is lost with the worker."""
COPIED: Final = (
    "pybroker",
    "testing",
    "tests",
    "benchmarks",
    "docs",
    "conftest.py",
    "pyproject.toml",
    "setup.py",
    "README.md",
    "LICENSE",
)
FLAGS: Final = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g"
NATIVE_TESTS: Final = (
    "tests/records", "tests/protocol", "tests/replication", "tests/metrics", "tests/fuzz", "tests/log/test_append_ways.py",
    "tests/log/test_tail.py",
    "tests/api/produce/test_ways.py", "tests/api/handlers/test_produce.py", "tests/api/fetch/test_loops.py",
    "tests/api/handlers/test_fetch.py",
    "tests/api/test_error_counts.py", "tests/api/produce/test_repeats.py",
    "tests/spark/test_columns.py", "tests/spark/test_datasource_reading.py", "tests/spark/test_datasource_kafka.py",
)  # fmt: skip


def build() -> None:
    """Copy the sources and build their extensions with the sanitizers; unchanged extensions are not built again."""
    for name in COPIED:
        source, target = ROOT / name, PLACE / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.c")
            shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
        else:
            PLACE.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    environment = {**os.environ, "CFLAGS": FLAGS, "LDFLAGS": FLAGS}
    subprocess.run([sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"], cwd=PLACE, env=environment, check=True)
    sources = sorted({path.with_suffix("") for kind in ("*.pyx", "*_native.pxd") for path in PLACE.glob(f"pybroker/**/{kind}")})
    missing = [str(path.relative_to(PLACE)) for path in sources if not [*path.parent.glob(f"{path.name}.*.so")]]
    if missing:  # an extension is optional, and its twin would hide that it was not built
        raise SystemExit(f"not built with the sanitizers: {', '.join(missing)}; the reason is in what the compiler printed above")


def environment() -> dict[str, str]:
    """Return the variables with which Python loads those extensions and checks their memory."""
    compiler = os.environ.get("CC", "gcc")
    asked = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    return {
        **os.environ,
        "LD_PRELOAD": asked.stdout.strip(),
        "ASAN_OPTIONS": f"detect_leaks=0:abort_on_error=1:allocator_may_return_null=1:strict_string_checks=1:log_path={REPORT}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:halt_on_error=1:log_path={REPORT}",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(PLACE),
        "TEST_MEMORY_BYTES": "0",  # the sanitizer's own memory is no measure
    }


def main(asked: list[str]) -> int:
    """Build, run the named tests or those that run native code, and return pytest's exit code."""
    build()
    where = "import pybroker.records._kernels_native as m; print(m.__file__)"
    loaded = subprocess.run(
        [sys.executable, "-c", where], cwd=PLACE, env=environment(), capture_output=True, text=True, check=True
    )
    assert loaded.stdout.startswith(str(PLACE)), loaded.stdout
    for old in PLACE.glob("report.*"):
        old.unlink()
    tests = asked or [name for name in NATIVE_TESTS if (PLACE / name).exists()]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "2", *tests]
    code = subprocess.run(command, cwd=PLACE, env=environment(), check=False).returncode
    for report in PLACE.glob("report.*"):
        print(report.read_text(errors="replace"))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
