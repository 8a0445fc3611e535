"""The words that the house style bans (CONTRIBUTING.md) are in no text that a person reads."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.sources import GENERATED, documents, relative, sources, text, tree

BANNED = {
    r"anew": "again, new, or from the start",
    r"(no|some)body": "no client, another client: who is it?",
    r"goes? on": "continues, remains",
    r"shall": "must, will",
    r"so (many|much|often)": "N, this many, every N seconds",
    r"for ever": "without end, or until what happens?",
    r"(is|are|was|were|been) told(?! to)": "gets, receives",
    r"answer(s|ed|ing)?": "response, respond: Kafka's word",
    r"who": "a client that ..., the thread that ...",
}
"""A pattern of whole words, and what to write instead."""

PATTERN = re.compile("|".join(rf"\b{pattern}\b" for pattern in BANNED), re.IGNORECASE)
CODE_SPAN = re.compile(r"``.*?``|`[^`]*`|^(?: {4}|\t).*$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
STYLE_PAGE = "CONTRIBUTING.md"
"""Names the words, so as to ban them."""


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the comments and the docstrings of a module, each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(text(path)).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def without_code(words: str) -> str:
    return re.sub(r"`[^`]*`", "", words)


@pytest.mark.parametrize("path", sources(".py"), ids=relative)
def test_code_is_described_in_plain_english(path: Path) -> None:
    found = [
        f"{relative(path)}:{line}: {match[0]}" for line, words in prose(path) for match in PATTERN.finditer(without_code(words))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", [path for path in documents() if relative(path) not in GENERATED], ids=relative)
def test_documents_are_in_plain_english(path: Path) -> None:
    if relative(path) == STYLE_PAGE:
        pytest.skip("lists the banned words")
    words = CODE_SPAN.sub("", FENCE.sub("", text(path)))
    found = [match[0] for match in PATTERN.finditer(words)]
    assert not found
