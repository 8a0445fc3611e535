"""Result files: what a long run has measured, line by line, so that a run that ends early loses nothing.

A file is `benchmarks/results/DATE-NAME.jsonl` unless the command line names another. Each line is a JSON object; the first names
the machine and the options of the run, the others have a `what`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any, Final, TextIO

from testing.process import kafka_peer

FOLDER: Final = Path(__file__).with_name("results")
Line = dict[str, Any]


def add_argument(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the option --result, whose default is today's file for `name`."""
    default = FOLDER / f"{time.strftime('%Y-%m-%d')}-{name}.jsonl"
    parser.add_argument("--result", type=Path, default=default, help="the result file, which is replaced (default: %(default)s)")


class ResultFile:
    """A file that replaces the one of an earlier run at the same path. Owns it; `close` ends it."""

    def __init__(self, options: argparse.Namespace) -> None:
        options.result.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = options.result.open("w")
        given = {name: value if isinstance(value, int | float) else str(value) for name, value in vars(options).items()}
        given["result"] = options.result.name  # where it lies on this machine is of no use to a reader
        self.add(what="run", began=time.strftime("%Y-%m-%d %H:%M"), machine=machine(), options=given)

    def __enter__(self) -> ResultFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.add(what="end", ended=time.strftime("%Y-%m-%d %H:%M"), load=load_text())
        self._file.close()

    def add(self, *, what: str, **values: object) -> None:
        """Write a line, which is in the file when this returns."""
        self._file.write(json.dumps({"what": what, **values}) + "\n")
        self._file.flush()


def read(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def machine() -> str:
    """Describe the machine and the software, as the line above a table."""
    model = next((line.partition(":")[2].strip() for line in _cpu_lines() if line.startswith("model name")), platform.machine())
    return (
        f"{os.cpu_count()} cores ({model}), CPython {platform.python_version()}, Apache Kafka {kafka_peer.RELEASE}, "
        f"load before {load_text()}"
    )


def load_text() -> str:
    return ", ".join(f"{load:.2f}" for load in os.getloadavg())


def _cpu_lines() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def one_argument(description: str | None) -> Path:
    """Return the result file that the command line of a command that prints names."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a result file")
    path: Path = parser.parse_args().file
    if not path.is_file():
        sys.exit(f"Error: there is no result file {path}")
    return path
