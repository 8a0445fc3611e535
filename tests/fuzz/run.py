"""Coverage-guided fuzzing for minutes: python -m tests.fuzz.run --minutes 5 --target batches.

It needs atheris (`pip install --group fuzz`). Inputs that it finds stay in build/fuzz/TARGET, where the next run begins. An input
that ends the run is in the current directory as crash-*, and `--replay FILE` runs it alone; add it to tests/fuzz/corpus/TARGET
with the mend. Coverage is that of the Python code. With `--native` the extensions are built again below build/fuzz, with clang's
coverage and AddressSanitizer, so that native code guides the fuzzer too.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PLACE = ROOT / "build" / "fuzz"
FLAGS = "-fsanitize=fuzzer-no-link,address -fno-omit-frame-pointer -g -O1"


def main() -> int:
    """Run the fuzzer, and return its exit code: 0 when it found nothing."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", choices=["frames", "batches", "segments"], required=True)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0, help="0: another each time")
    parser.add_argument("--replay", type=Path, help="run this input alone")
    parser.add_argument("--native", action="store_true", help="with native code that guides, and under AddressSanitizer")
    asked = parser.parse_args()
    try:
        import atheris  # noqa: PLC0415
    except ImportError:
        raise SystemExit("fuzzing needs atheris: pip install --group fuzz") from None
    if asked.native and "FUZZ_NATIVE" not in os.environ:
        return _with_native_code(Path(atheris.path()))
    with atheris.instrument_imports(include=["pybroker"]):
        from tests.fuzz.targets import TARGETS  # noqa: PLC0415
    from tests.fuzz.seeds import seeds  # noqa: PLC0415

    logging.disable()  # what recovery has to report of each input
    target = TARGETS[asked.target]
    if asked.replay is not None:
        target(asked.replay.read_bytes())
        return 0
    corpus = PLACE / asked.target
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds(asked.target)):
        (corpus / f"seed-{number}").write_bytes(data)
    limits = [f"-max_total_time={int(60 * asked.minutes)}", "-timeout=20", "-rss_limit_mb=3000", "-max_len=4096"]
    atheris.Setup([sys.argv[0], str(corpus), f"-seed={asked.seed}", "-print_final_stats=1", *limits], target)
    atheris.Fuzz()
    return 0


def _with_native_code(atheris: Path) -> int:
    """Build the extensions for the fuzzer in a copy, and continue there."""
    copy = PLACE / "native"
    for name in ("pybroker", "testing", "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.c"), dirs_exist_ok=True)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, copy / name)
    compiler = next((one for one in ("clang", "clang-14", "clang-16", "clang-19") if shutil.which(one)), None)
    if compiler is None:
        raise SystemExit("--native needs clang")
    built = {**os.environ, "CC": compiler, "CFLAGS": FLAGS, "LDSHARED": f"{compiler} -shared"}
    subprocess.run([sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"], cwd=copy, env=built, check=True)
    environment = {
        **os.environ,
        "FUZZ_NATIVE": "1",
        "LD_PRELOAD": str(atheris / "asan_with_fuzzer.so"),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(copy),
    }
    again = [sys.executable, "-m", "tests.fuzz.run", *sys.argv[1:]]
    return subprocess.run(again, cwd=copy, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
