"""The words that the house style bans (CONTRIBUTING.md) are in no text that a person reads."""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.sources import CODE, GENERATED, ROOT, documents, for_each, nodes, relative, sources, text, tree

BANNED = {
    r"anew": "again, new, or from the start",
    r"(no|some|any|every)body": "no client, another client, each client: who is it?",
    r"(go(es)?|going|went|gone) on": "continues, remains",
    r"shall": "must, will",
    r"so (many|much|often)": "N, this many, every N seconds",
    r"for ever": "without end, or until what happens?",
    r"says?|said|saying|tells?|told|telling": "shows, has, contains, reports, distinguishes: only people talk",
    r"answer(s|ed|ing)?": "response, respond: Kafka's word",
    r"who": "a client that ..., the thread that ...",
}
"""A pattern of whole words, and what to write instead."""

PATTERN = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in BANNED), re.IGNORECASE)
CODE_SPAN = re.compile(r"``.*?``|`[^`]*`|^(?: {4}|\t).*$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HASH_COMMENT = r"(?:^|\s)#.*"
SLASH_COMMENT = r"(?<!:)//.*|/\*[\s\S]*?\*/"
COMMENTS = {
    **dict.fromkeys((".pyx", ".pxd", ".pxi"), HASH_COMMENT + r'|"""[\s\S]*?"""'),
    **dict.fromkeys((".java", ".h"), SLASH_COMMENT),
    **dict.fromkeys((".sh", ".txt", ".yml", ".in", ".properties"), HASH_COMMENT),
}
"""The texts that a person reads in files of other languages, by suffix."""

OTHERS = sources(*COMMENTS, folders=(*CODE, "config"))
WITHOUT_SUFFIX = [
    *(ROOT / name for name in ("Dockerfile", "Makefile", "docker-compose.yml", "pyproject.toml", ".ci/run")),
    *sorted(path for path in (ROOT / "container" / "root").rglob("*") if path.is_file() and not path.suffix),
]
BANNED_IN_NAMES = re.compile(r"answer(s|ed|ing)?|anew|(no|some|any|every)body|shall|says?|said|saying|tells?|told|telling|who")
"""The words that no identifier may have among its own, in lower case."""

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')
PRINTING = {"echo", "fail", "print", "skip"}
"""Functions whose arguments a person reads, beside those of a logger."""

READ = {"description", "epilog", "help", "reason", "short_help"}
"""Arguments that a person reads, whatever the function."""

STYLE_PAGE = "CONTRIBUTING.md"
"""Names the words, so as to ban them."""


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the comments and the docstrings of a module, each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(text(path)).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in nodes(tree(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def messages(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the texts of exceptions, log lines, help and failed assertions, each with its line."""
    for node in nodes(module):
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.Raise):
            parts = [node.exc]
        elif isinstance(node, ast.Assert):
            parts = [node.msg]
        elif isinstance(node, ast.Call):
            owner, _, name = ast.unparse(node.func).rpartition(".")
            parts = [*node.args] if owner == "logger" or name in PRINTING else []
            parts += [keyword.value for keyword in node.keywords if keyword.arg in READ]
        for part in parts:
            for text_node in ast.walk(part) if part is not None else ():
                if isinstance(text_node, ast.Constant) and isinstance(text_node.value, str):
                    yield text_node.lineno, text_node.value


def names(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield what the module itself names: functions, classes, parameters, variables and attributes, each with its line."""
    for node in nodes(module):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield node.lineno, name


def banned_names(module: ast.Module) -> list[str]:
    return [f"line {line}: {name}" for line, name in names(module) if is_banned_name(name)]


def identifiers(suffix: str, source: str) -> set[str]:
    """Return the words of code in a file of another language, without those in its comments and texts."""
    code = re.sub(COMMENTS[suffix], " ", source, flags=re.MULTILINE)
    return set(IDENTIFIER.findall(QUOTED.sub(" ", code)))


def is_banned_name(name: str) -> bool:
    return any(BANNED_IN_NAMES.fullmatch(word.lower()) for word in WORD.findall(name))


def without_code(words: str) -> str:
    return re.sub(r"`[^`]*`", "", words)


@functools.cache
def suspects(pattern: str) -> set[Path]:
    """Return the modules with a match anywhere in their text. To take apart only these takes a tenth of the time."""
    return {path for path in sources(".py") if re.search(pattern, text(path).lower())}


@for_each(sources(".py"))
def test_code_is_described_in_plain_english(path: Path) -> None:
    parts = prose(path) if path in suspects(PATTERN.pattern) else ()
    found = [f"{relative(path)}:{line}: {match[0]}" for line, words in parts for match in PATTERN.finditer(without_code(words))]
    assert not found, "\n".join(found)


@for_each(sources(".py"))
def test_messages_are_in_plain_english(path: Path) -> None:
    parts = messages(tree(path)) if path in suspects(PATTERN.pattern) else ()
    found = [f"line {line}: {match[0]}" for line, words in parts for match in PATTERN.finditer(without_code(words))]
    assert not found


@pytest.mark.parametrize(
    "source",
    [
        'raise ValueError("the answer is late")',
        'assert late, "nobody answered"',
        'logger.info("Starting %s anew", one)',
        'print(f"{one} shall end")',
        'option("--one", help="the client who asks")',
        'skip = pytest.mark.skipif(True, reason="goes on for ever")',
        'print("they go on")',
        'logger.warning("Refused everybody")',
        'raise ValueError("open to anybody")',
        'raise ValueError("the file says otherwise")',
        'assert late, "a client was told so"',
    ],
)
def test_a_banned_word_in_a_message_is_found(source: str) -> None:
    assert [words for _, words in messages(ast.parse(source)) if PATTERN.search(words)]


@for_each(sources(".py"))
def test_names_are_in_plain_english(path: Path) -> None:
    assert path not in suspects(BANNED_IN_NAMES.pattern) or not banned_names(tree(path))


@pytest.mark.parametrize(
    "source",
    [
        "answer = 1",
        "self.late_answers = []",
        "def begin_anew(): ...",
        "class FetchAnswer: ...",
        "def ask(nobody): ...",
        "everybody = []",
        "import asked as answered",
        "for answer in []: ...",
        "[answer for answer in []]",
        "def say(line): ...",
        "self._told = []",
        "class Telling: ...",
        "def test_the_log_says_so(): ...",
        "with open(path) as somebodys, file as somebody: ...",
        "def leave(who): ...",
    ],
)
def test_a_banned_word_in_a_name_is_found(source: str) -> None:
    assert banned_names(ast.parse(source))


@for_each(sources(".pyx", ".pxd", ".pxi", ".java", ".h"))
def test_names_of_other_languages_are_in_plain_english(path: Path) -> None:
    assert not [name for name in sorted(identifiers(path.suffix, text(path))) if is_banned_name(name)]


@pytest.mark.parametrize(
    ("suffix", "source", "found"),
    [
        (".pyx", "cdef int late_answers  # tells", ["late_answers"]),
        (".pyx", 'cdef class Telling:\n    """An answer."""\n    cdef str one = "told"', ["Telling"]),
        (".pxd", "cdef bint is_told", ["is_told"]),
        (".java", 'String sayAnew(int one) { return "answer"; } // nobody', ["sayAnew"]),
    ],
)
def test_a_banned_word_in_a_name_of_another_language_is_found(suffix: str, source: str, found: list[str]) -> None:
    assert [name for name in identifiers(suffix, source) if is_banned_name(name)] == found


@for_each([*OTHERS, *WITHOUT_SUFFIX])
def test_files_of_other_languages_are_in_plain_english(path: Path) -> None:
    comments = re.findall(COMMENTS.get(path.suffix, HASH_COMMENT), text(path), re.MULTILINE)
    assert not [match[0] for words in comments for match in PATTERN.finditer(without_code(words))]


@pytest.mark.parametrize(
    ("suffix", "source"),
    [
        (".pyx", "size = 1  # nobody reads it"),
        (".pxi", '"""Answer the client."""'),
        (".java", "int one; // the thread who reads"),
        (".java", "/** It shall end. */"),
        (".yml", "# starts anew"),
        (".txt", "alice beats  # and nobody else"),
    ],
)
def test_a_banned_word_in_another_language_is_found(suffix: str, source: str) -> None:
    assert PATTERN.search("".join(re.findall(COMMENTS[suffix], source, re.MULTILINE)))


@for_each([path for path in documents() if relative(path) not in GENERATED])
def test_documents_are_in_plain_english(path: Path) -> None:
    if relative(path) == STYLE_PAGE:
        return  # it lists the banned words
    words = CODE_SPAN.sub("", FENCE.sub("", text(path)))
    found = [match[0] for match in PATTERN.finditer(words)]
    assert not found
