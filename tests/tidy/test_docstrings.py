"""A function's docstring begins with a verb and is a sentence: ruff's D401 finds wrong forms of verbs, these tests the rest."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.sources import relative, sources, tree

NO_VERBS = frozenset(
    (
        *("a", "all", "an", "any", "both", "each", "every", "everything", "it", "its", "no", "none", "nothing", "that", "the"),
        *("there", "these", "they", "this", "those", "one", "two", "four", "only", "seconds", "bytes"),
        *(
            "after",
            "as",
            "at",
            "before",
            "behind",
            "between",
            "by",
            "for",
            "from",
            "in",
            "into",
            "of",
            "on",
            "to",
            "under",
            "with",
        ),
        *("and", "else", "how", "if", "so", "until", "what", "whatever", "when", "where", "whether", "which", "why", "without"),
    )
)
ENDS = (".", ":", "?", "!")


def described(module: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and docstring of each function except properties, which are described by what they are."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_property = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
            words = ast.get_docstring(node)
            if words and not is_property:
                yield node.lineno, node.name, words


def faults(name: str, words: str) -> Iterator[str]:
    """Yield what is wrong with a docstring. That of a test states what is true, so it need not begin with a verb."""
    first = words.split(maxsplit=1)[0].strip(",.:;").lower()
    if first in NO_VERBS and not name.startswith("test_"):
        yield f"begins with {first!r}"
    if not words.partition("\n\n")[0].rstrip().endswith(ENDS):
        yield "does not end as a sentence"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Return the end.", []),
        ("The end.", ["begins with 'the'"]),
        ("Whether it ends", ["begins with 'whether'", "does not end as a sentence"]),
        ("Return rows:\n\n    one", []),
    ],
)
def test_the_check_finds_fragments(words: str, expected: list[str]) -> None:
    assert list(faults("name", words)) == expected


@pytest.mark.parametrize("path", sources(".py"), ids=relative)
def test_docstrings_are_sentences(path: Path) -> None:
    found = [
        f"{relative(path)}:{line}: {name} {fault}" for line, name, words in described(tree(path)) for fault in faults(name, words)
    ]
    assert not found, "\n".join(found)
