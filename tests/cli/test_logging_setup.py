from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pybroker.cli.logging_setup import JsonFormatter, TextFormatter, parse_levels, set_up_logging
from pybroker.config.setting import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator


def record(message: str = "listening", *arguments: object, **fields: object) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"name": "pybroker.network", "levelno": 20, "levelname": "INFO", "msg": message, "args": arguments}
    )
    made.created, made.msecs = 1_700_000_000.25, 250.0
    vars(made).update(fields)
    return made


START = "time=2023-11-14T22:13:20.250Z level=info module=pybroker.network "


@pytest.mark.parametrize(
    ("made", "rest"),
    [
        (record(), "msg=listening"),
        (record("on port %d", 9092), 'msg="on port 9092"'),
        (record(port=9092, host="::1"), "msg=listening port=9092 host=::1"),
        (record(a="", b='say "x=1"\n', c="back\\slash"), 'msg=listening a="" b="say \\"x=1\\"\\n" c="back\\\\slash"'),
        (record("of %s", 'a\\" level=error'), 'msg="of a\\\\\\" level=error"'),
    ],
)
def test_text(made: logging.LogRecord, rest: str) -> None:
    assert TextFormatter().format(made) == START + rest


def test_json() -> None:
    assert json.loads(JsonFormatter().format(record(port=9092))) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "info",
        "module": "pybroker.network",
        "msg": "listening",
        "port": 9092,
    }


def test_each_line_has_the_fields_of_the_process_behind_its_level() -> None:
    assert " level=info broker=2 module=pybroker.network " in TextFormatter({"broker": "2"}).format(record())
    assert list(json.loads(JsonFormatter({"broker": "2"}).format(record()))) == ["time", "level", "broker", "module", "msg"]


def test_tracebacks() -> None:
    try:
        raise ValueError("why")
    except ValueError:
        made = record(exc_info=sys.exc_info())
    assert TextFormatter().format(made).splitlines()[-1] == "  ValueError: why"
    assert json.loads(JsonFormatter().format(made))["error"].endswith("ValueError: why")


@pytest.mark.parametrize("form", [TextFormatter, JsonFormatter])
@pytest.mark.parametrize(
    "character", ["\x1b", "\0", "\n", "\x7f", "\x9b", "\u200b", "\u202e", "\u2066", "\ufeff", "\u2028", "\ud800", "\U000e0001"]
)
def test_a_character_that_is_not_printable_is_an_escape(form: type[logging.Formatter], character: str) -> None:
    line = form().format(record("Group %s is empty", f"gr{character}uppe", name_of_client=f"ü{character}"))
    assert line.isprintable()
    assert line.count(json.dumps(character)[1:-1]) == 2
    assert "ü" in line


def test_json_keeps_every_text_as_it_was() -> None:
    text = "".join(map(chr, (*range(0x300), 0x202E, 0x1F600, 0xE0001)))
    fields = json.loads(JsonFormatter().format(record("%s", text, is_late=True, ratio=0.5)))
    assert (fields["msg"], fields["is_late"], fields["ratio"]) == (text, True, 0.5)


@pytest.mark.parametrize("form", [TextFormatter, JsonFormatter])
def test_a_text_of_a_client_cannot_make_a_line_of_the_log(form: type[logging.Formatter]) -> None:
    try:
        raise ValueError("why\ntime=2023-11-14T22:13:20.250Z level=error module=forged")
    except ValueError:
        made = record("failed: %s", "a\ntime=2023-11-14T22:13:20.250Z level=error", exc_info=sys.exc_info())
    lines = form().format(made).splitlines()
    assert [line for line in lines if not line.startswith("  ")] == lines[:1]


@pytest.mark.parametrize("form", [TextFormatter, JsonFormatter])
@pytest.mark.parametrize("name", ["n" * 32_000, "\x1b" * 32_000])
def test_a_long_text_is_cut_and_the_line_has_its_end(form: type[logging.Formatter], name: str) -> None:
    line = form().format(record("Group %s: member %s of client %s is removed in generation %d", name, name, name, 7))
    assert "is removed in generation 7" in line
    assert line.count("... (32000 characters)") == 3
    assert len(line) <= 4_096
    alone = form().format(record("%s", name, name_of_client=name))
    assert alone.count("... (32000 characters)") == 2


def test_a_long_line_of_our_own_is_whole() -> None:
    names = ", ".join(f"name.of.a.property.{number}" for number in range(100))
    assert names in TextFormatter().format(record("%s: %s", "accepted and ignored", names))


def test_levels() -> None:
    assert parse_levels(["warn", "pybroker.log=TRACE", "a=OFF"]) == {"": 30, "pybroker.log": 10, "a": 51}
    for option in ("", "LOUD", "a=", "=INFO", "a=LOUD"):
        with pytest.raises(ConfigError, match=r"^log-level="):
            parse_levels([option])


@pytest.fixture
def untouched_logging() -> Iterator[None]:
    names = ["", "pybroker.one", "pybroker.two"]
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger.level, logger.handlers[:]) for logger in loggers]
    yield
    for logger, (level, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.mark.usefixtures("untouched_logging")
def test_options_win_over_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"format": "json", "level": "ERROR", "pybroker.one": "DEBUG", "pybroker.two": "DEBUG"}
    set_up_logging(settings, ["pybroker.two=WARN"], "text")
    for name in ("pybroker", "pybroker.one", "pybroker.two"):
        logging.getLogger(name).info("from %s", name)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [line.partition("msg=")[2] for line in captured.err.splitlines()] == ['"from pybroker.one"']


@pytest.mark.usefixtures("untouched_logging")
def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^format=xml: must be one of text, json"):
        set_up_logging({"format": "xml"}, [], None)


def test_a_line_with_escapes_needs_no_descriptor() -> None:
    program = """
import logging, os, resource
from pybroker.cli.logging_setup import set_up_logging
set_up_logging({}, (), None)
resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
logging.getLogger().warning("a client named %s", chr(7))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.endswith('msg="a client named \\u0007"\n')
