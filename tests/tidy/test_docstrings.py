"""A docstring is a sentence, and a function's begins with a verb: ruff's D401 finds wrong forms of verbs, this the rest."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.sources import for_each, nodes, relative, sources, text, tree

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
CLAUSES = frozenset(("of", "what", "whatever", "who", "whoever"))
"""First words of no sentence, or of one that has a clause for its subject: the text of a constant may begin with any other."""
FRAGMENTS = CLAUSES | {"at", "by", "from", "into", "it", "its", "on", "they", "to", "under", "with", "without"}
"""These, and first words of a sentence whose subject stands elsewhere: no class, module or test begins with one of them."""

DESCRIBED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)  # a union would be made again for each node
CONSTANT = "="
"""Stands for the name of a constant, which no function can have."""
ENDS = (".", ":", "?", "!")
NATIVE_DOCSTRING = re.compile(r'^ *"""([\s\S]*?)"""', re.MULTILINE)
C_IN_CYTHON = re.compile(r'extern from \*:\n +"""[\s\S]*?"""')


def described(module: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and docstring of whatever has one, constants included. Only functions have a name, because only they begin
    with a verb.
    """
    for node in nodes(module):
        if isinstance(node, DESCRIBED):
            words = ast.get_docstring(node)
            if words:
                yield getattr(node, "lineno", 1), _function(node), words
            if isinstance(node, ast.Module | ast.ClassDef):
                yield from _constants(node.body)


def _constants(body: list[ast.stmt]) -> Iterator[tuple[int, str, str]]:
    for before, after in itertools.pairwise(body):
        match before, after:
            case ast.Assign() | ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(words))):
                yield after.lineno, CONSTANT, words


def _function(node: ast.AST) -> str:
    """Return the name of a function, and no name of a property, which is described by what it is, as a class is."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return ""
    return "" if any("property" in ast.unparse(decorator) for decorator in node.decorator_list) else node.name


def faults(name: str, words: str) -> Iterator[str]:
    """Yield what is wrong with a docstring. That of a test states what is true, so it need not begin with a verb."""
    first = words.split(maxsplit=1)[0].strip(",.:;").lower()
    unwanted = CLAUSES if name == CONSTANT else FRAGMENTS if not name or name.startswith("test_") else NO_VERBS
    if first in unwanted:
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


@pytest.mark.parametrize("name", ["", "test_name"])
def test_the_check_finds_fragments_of_classes_and_tests(name: str) -> None:
    assert list(faults(name, "The end.")) == []
    assert list(faults(name, "Of the end")) == ["begins with 'of'", "does not end as a sentence"]


def test_the_check_finds_texts_of_constants() -> None:
    module = ast.parse('"""A module."""\nEND = 1\n"""What ends."""\n')
    assert list(described(module)) == [(1, "", "A module."), (3, CONSTANT, "What ends.")]
    assert list(faults(CONSTANT, "What ends.")) == ["begins with 'what'"]
    assert list(faults(CONSTANT, "By default, it ends.")) == []


@for_each(sources(".py"))
def test_docstrings_are_sentences(path: Path) -> None:
    found = [
        f"{relative(path)}:{line}: {name} {fault}" for line, name, words in described(tree(path)) for fault in faults(name, words)
    ]
    assert not found, "\n".join(found)


def native_docstrings(source: str) -> list[str]:
    """Return the texts that begin a line of Cython, but not C that is written there."""
    return NATIVE_DOCSTRING.findall(C_IN_CYTHON.sub("", source))


@for_each(sources(".pyx", ".pxd", ".pxi"))
def test_docstrings_of_native_code_are_sentences(path: Path) -> None:
    found = [f"{words[:40]!r} {fault}" for words in native_docstrings(text(path)) for fault in faults("", words)]
    assert not found, "\n".join(found)


def test_a_fragment_in_native_code_is_found() -> None:
    source = '"""The module."""\ncdef extern from *:\n    """\n    int of;\n    """\n\ndef end():\n    """Of the end"""\n'
    assert native_docstrings(source) == ["The module.", "Of the end"]
    assert list(faults("", "Of the end")) == ["begins with 'of'", "does not end as a sentence"]
