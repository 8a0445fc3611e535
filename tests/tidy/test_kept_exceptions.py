"""An exception that outlives its handler is kept without its frames (`failures.drop_frames`), or deleted in the same function.

Else the frames refer to what keeps the exception, and the exception to the frames, with all that the failed work had made.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.sources import for_each, nodes, sources, tree

TAKEN_OUT = {"pybroker/log/results.py"}  # its `result` takes the exception out of the object


def _values(node: ast.expr | None) -> Iterator[ast.expr]:
    """Yield the expressions that may be the value of `node`, or are in it."""
    if isinstance(node, ast.Tuple | ast.List):
        for element in node.elts:
            yield from _values(element)
    elif isinstance(node, ast.IfExp):
        yield from _values(node.body)
        yield from _values(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _values(value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id[0].isupper():  # a class
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            yield from _values(argument)
    elif node is not None:
        yield node


def _kept_by(node: ast.AST, deleted: set[str]) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign):
        targets = [value for target in node.targets for value in _values(target)]
        if not any(isinstance(target, ast.Name) and target.id in deleted for target in targets):
            yield from _values(node.value)
    elif isinstance(node, ast.AnnAssign):
        yield from _values(node.value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
        for argument in node.args:
            yield from _values(argument)


def keepers(function: ast.AST) -> list[int]:
    """Return the lines at which a handler keeps its exception with its frames."""
    inside = nodes(function)
    deletes = [target for node in inside if isinstance(node, ast.Delete) for target in node.targets]
    deleted = {target.id for target in deletes if isinstance(target, ast.Name)}
    return [
        value.lineno
        for handler in inside
        if isinstance(handler, ast.ExceptHandler) and handler.name is not None
        for node in nodes(handler)
        for value in _kept_by(node, deleted)
        if isinstance(value, ast.Name) and value.id == handler.name
    ]


@for_each([path for path in sources(".py", folders=("pybroker",)) if not str(path).endswith(tuple(TAKEN_OUT))])
def test_an_exception_is_kept_without_its_frames(path: Path) -> None:
    functions = [node for node in nodes(tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lines = sorted({line for function in functions for line in keepers(function)})
    assert not lines, f"lines {lines}: write drop_frames(error)"


def test_every_way_to_keep_an_exception_is_seen() -> None:
    ways = (
        "one = error",
        "self.one = other = error",
        "one[0] = error",
        "one, two = error, None",
        "one = error if two else None",
        "one: Exception = two or error",
        "one.append(error)",
        "one.append(Outcome(error=error))",
        "if two:\n        one = error",
    )
    for way in ways:
        assert keepers(ast.parse(f"try:\n    f()\nexcept E as error:\n    {way}\n")), way
    for way in ("one = drop_frames(error)", "two = error\ndel two", "one = str(error)", "raise One(error)"):
        assert not keepers(ast.parse(f"try:\n    f()\nexcept E as error:\n    {way}\n")), way
