"""Each command of a benchmark that a document gives exists, with its options."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tidy.sources import ROOT, for_each, text
from tests.tidy.test_documents import FILES

LIST = ROOT / "benchmarks" / "README.md"
COMMAND = re.compile(r"benchmarks\.(?P<name>[a-z_]+)(?P<rest>[^`\n#]*)")
LISTED = re.compile(r"`(?P<name>[a-z_]+)(?P<rest>(?: [a-z]+)?(?: --?[^`]*)?)`(?! extra)")
OPTION = re.compile(r"--[a-z-]+")
SHARED = "benchmarks/peers.py"
"""Has the options of all benchmarks that start brokers."""


def faults(name: str, rest: str) -> list[str]:
    """Return what is not there: the benchmark, or options of it."""
    module = ROOT / "benchmarks" / f"{name}.py"
    if not module.is_file():
        return [f"benchmarks.{name} does not exist"]
    code = text(module) + (text(ROOT / SHARED) if "peers.arguments" in text(module) else "")
    return [f"benchmarks.{name} has no {option}" for option in OPTION.findall(rest) if f'"{option}"' not in code]


def test_the_check_finds_what_is_not_there() -> None:
    assert faults("small_requests", " --rounds 1 --no-kafka") == []
    assert faults("codec", " --rounds 1") == ["benchmarks.codec has no --rounds"]
    assert faults("unread_requests", "") == ["benchmarks.unread_requests does not exist"]


@for_each(FILES)
def test_commands_of_benchmarks_exist(path: Path) -> None:
    found = [fault for match in COMMAND.finditer(text(path)) for fault in faults(match["name"], match["rest"])]
    assert not found, "\n".join(found)


def test_the_list_names_every_benchmark_and_nothing_else() -> None:
    rows = [line for line in text(LIST).splitlines() if line.startswith("| `")]
    named = [match for line in rows for match in LISTED.finditer(line.split("|")[1])]
    assert len(named) >= len(rows) > 20
    assert [fault for match in named for fault in faults(match["name"], match["rest"])] == []
    runnable = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if '__name__ == "__main__"' in text(path)}
    assert runnable - {match["name"] for match in named} == {"without"}, "which stands in the row of `instructions`"


def test_each_row_of_the_summary_has_its_command() -> None:
    summary = text(LIST).partition("\n\n")[2].partition("\n\n")[0].splitlines()
    commands = [line.split("|")[-2].strip() for line in summary[2:]]
    assert len(commands) > 10
    for command in commands:
        match = LISTED.fullmatch(command)
        assert command == "the same" or (match and faults(match["name"], match["rest"]) == []), command
    assert commands[0] != "the same"
