"""The names in documents are those of the code: a path, a function, a command or a link that is gone misleads more than none."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tidy.sources import PACKAGE, ROOT, documents, for_each, relative, sources, text

LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
HEADING_LINK = re.compile(r"\]\((?!https?://)([^)#\s]+\.md)?#([^)\s]+)\)")
PATH = re.compile(r"`([A-Za-z_][\w./-]*)`")
SUFFIXES = (".py", ".pyx", ".pxd", ".md", ".toml", ".java")
FOLDER = re.compile(r"`([a-z][\w/]*/)`")
IN_FILE = re.compile(r"`([\w/]+\.py): ([\w.]+)`")
METHOD = re.compile(r"`([A-Z]\w+[a-z]\w*)\.([a-z]\w*)`")
MAKE = re.compile(r"`make ([a-z][a-z-]*)")
MAKE_TARGETS = set(re.findall(r"^([a-z][a-z-]*):", text(ROOT / "Makefile"), re.MULTILINE))
HISTORY = re.compile(r"CHANGELOG\.md|benchmarks/results/.*")
"""These describe what was, under the names of its time."""

PLACEHOLDERS = {"x.py", "_x_python.py", "_x_native.pyx"}
LINE_MAX = 140
FENCED = re.compile(r"^```[\s\S]*?^```", re.MULTILINE)
NO_PROSE = re.compile(r"^```[\s\S]*?^```|^(?:\||#|\t| {4}).*$", re.MULTILINE)
FILES = [path for path in documents() if not HISTORY.fullmatch(relative(path))]
CLASSES: dict[str, str] = {}
"""The text of the modules that define a class of this name."""
for _path in sources(".py", ".pyx", folders=("pybroker", "testing")):
    for _name in re.findall(r"^(?:cdef )?class (\w+)", text(_path), re.MULTILINE):
        CLASSES[_name] = CLASSES.get(_name, "") + text(_path)


def exists(name: str, document: Path) -> bool:
    """Return whether the name is a path from the root, from the package, from the document, or from a folder that it names."""
    folders = [ROOT / folder for folder in FOLDER.findall(text(document))]
    return any((base / name).exists() for base in (ROOT, PACKAGE, document.parent, *folders))


def headings(document: str) -> set[str]:
    """Return the names by which links lead to the headings of a document."""
    lines = re.findall(r"^#+ +(.*?) *$", FENCED.sub("", document), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line).lower().replace(" ", "-") for line in lines}


@for_each(FILES)
def test_lines_of_prose_fit_a_window(path: Path) -> None:
    assert not [line for line in NO_PROSE.sub("", text(path)).splitlines() if len(line) > LINE_MAX]


@for_each(FILES)
def test_links_lead_somewhere(path: Path) -> None:
    assert not [target for target in LINK.findall(text(path)) if not (path.parent / target).exists()]


@for_each(FILES)
def test_links_lead_to_headings(path: Path) -> None:
    """GitHub makes the name of a heading from its words, in lower case, with hyphens between."""
    for target, heading in HEADING_LINK.findall(text(path)):
        linked = path.parent / target if target else path
        assert heading in headings(text(linked)), f"{target}#{heading}"


def test_a_heading_has_the_name_that_links_give_it() -> None:
    assert headings("# One\n## `make test`, and *more*\ntext\n") == {"one", "make-test-and-more"}
    assert HEADING_LINK.findall("[a](b.md#c) [d](#e) [f](https://g.h/i.md#j) [k](l.md)") == [("b.md", "c"), ("", "e")]


@for_each(FILES)
def test_named_files_exist(path: Path) -> None:
    named = {name for name in PATH.findall(text(path)) if name.endswith(SUFFIXES) or name.startswith("pybroker/")}
    assert not [name for name in sorted(named - PLACEHOLDERS) if not exists(name.rstrip("/"), path)]


@for_each(FILES)
def test_named_functions_exist(path: Path) -> None:
    for name, function in IN_FILE.findall(text(path)):
        (found, *_) = [base / name for base in (ROOT, PACKAGE, path.parent) if (base / name).exists()] or [None]
        assert found is not None, f"no file {name}"
        for part in function.split("."):
            assert re.search(rf"\b(def|class) {part}\b", text(found)), f"no {part} in {name}"


@for_each(FILES)
def test_named_methods_exist(path: Path) -> None:
    """The methods are those of our own classes; `LogCleaner.offset` may be a name of Kafka's, so the class has to be here."""
    for name, method in METHOD.findall(text(path)):
        if name in CLASSES and f"Kafka's `{name}" not in text(path):
            assert re.search(rf"\b{method}\b", CLASSES[name]), f"{name} has no {method}"


@for_each(FILES)
def test_named_make_targets_exist(path: Path) -> None:
    assert set(MAKE.findall(text(path))) <= MAKE_TARGETS


def test_the_architecture_names_every_package() -> None:
    table = text(ROOT / "docs" / "design" / "architecture.md").partition("\n| package |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines()[2:] for name in PATH.findall(row.split("|")[1])}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    modules = {path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__")}
    assert named == packages | modules
