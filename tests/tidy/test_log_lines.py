"""Log lines have one form, so that a person and a search find them: a capital letter first, and no full stop at the end."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.sources import for_each, nodes, relative, sources, tree

LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
FREE = "%"
"""A line may begin with what it is about, such as a partition."""


def lines(path: Path) -> Iterator[tuple[int, str]]:
    for node in nodes(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id == "logger" and node.args:
                message = node.args[0]
                if isinstance(message, ast.Constant) and isinstance(message.value, str):
                    yield node.lineno, message.value


def test_there_are_lines_to_look_at() -> None:
    assert sum(1 for path in sources(".py", folders=("pybroker",)) for _ in lines(path)) > 80


@for_each(sources(".py", folders=("pybroker",)))
def test_log_lines_have_one_form(path: Path) -> None:
    for line, message in lines(path):
        where = f"{relative(path)}:{line}: {message!r}"
        assert message[0].isupper() or message.startswith(FREE), f"{where} begins without a capital letter"
        assert not message.endswith("."), f"{where} ends with a full stop"


@for_each(sources(".py", folders=("pybroker",)))
def test_a_logger_is_called_logger(path: Path) -> None:
    for node in tree(path).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            function = node.value.func
            if isinstance(function, ast.Attribute) and function.attr == "getLogger":
                assert [target.id for target in node.targets if isinstance(target, ast.Name)] == ["logger"]
