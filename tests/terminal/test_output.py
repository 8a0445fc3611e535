"""Tables for people, and lines of JSON with the same rows."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pybroker.terminal.output import BAD, Column, Output, bad_if_any

ROWS = [{"name": "a\x1b[2J", "count": 1234, "tags": ["x", "y"], "note": None}, {"name": "bb", "count": 0, "tags": [], "note": 1}]


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def output(lines: list[str]) -> Callable[..., Output]:
    def make(*, is_json: bool = False, has_colours: bool = False) -> Output:
        return Output(lines.append, is_json=is_json, has_colours=has_colours)

    return make


def test_a_table_has_columns_as_wide_as_they_need(output: Callable[..., Output], lines: list[str]) -> None:
    output().rows(["name", "count", "note", Column("tags", title="MARKS")], ROWS)
    assert lines == [
        "NAME      COUNT  NOTE  MARKS",
        "a\\x1b[2J  1,234     -  x,y",
        "bb            0     1  -",
    ]


def test_json_has_all_fields_as_they_are(output: Callable[..., Output], lines: list[str]) -> None:
    out = output(is_json=True)
    out.rows(["name"], ROWS)
    out.line("only for people")
    out.done("done", deleted=True)
    assert [json.loads(line) for line in lines] == [*ROWS, {"deleted": True}]


def test_what_should_not_be_is_red_only_where_there_are_colours(output: Callable[..., Output], lines: list[str]) -> None:
    column = Column("count", is_bad=bad_if_any)
    output(has_colours=True).rows([column], ROWS)
    output().rows([column], ROWS)
    assert lines == ["\x1b[1mCOUNT\x1b[0m", f"\x1b[{BAD}m1,234\x1b[0m", "    0", "COUNT", "1,234", "    0"]


def test_no_rows_are_a_sentence_for_a_person_and_nothing_for_a_script(output: Callable[..., Output], lines: list[str]) -> None:
    output().rows(["name"], [], none="There are none.")
    output(is_json=True).rows(["name"], [], none="There are none.")
    assert lines == ["There are none."]


def test_one_row_has_a_line_for_each_field(output: Callable[..., Output], lines: list[str]) -> None:
    output().fields(["name", "count"], ROWS[1])
    assert lines == ["NAME   bb", "COUNT  0"]
