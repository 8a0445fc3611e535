"""A name such as `append.write_batches` in the text of a module is one of the module that it names."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from tests.tidy.sources import CODE, ROOT, for_each, relative, sources, text

DOTTED = re.compile(r"`(?:[a-z_]\w*[/.])*([a-z_]\w*)\.([A-Za-z_]\w*)(?:\(\))?`")
SUFFIXES = {"py", "pyx", "pxd", "md", "properties"}
SETTINGS = re.compile(r"`([a-z][\w.]*)`")
TWIN = re.compile(r"_(\w+)_(python|native)")
SETTING_NAMES = {*SETTINGS.findall(text(ROOT / "docs" / "configuration.md"))}
"""Names of settings look the same: `log.dirs`."""


def of_modules() -> dict[str, list[str]]:
    """Return the texts behind each name of a module or of a package; a package has the texts and the names of its modules,
    and the names of its packages.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for path in sources(".py", ".pyx", folders=("pybroker", "testing")):
        stem = TWIN.sub(r"\1", path.stem)
        found[stem] += [text(path)]
        found[path.parent.name] += [text(path), stem]
        found[path.parent.parent.name] += [path.parent.name]
    return found


MODULES = of_modules()


def unknown(words: str) -> list[str]:
    """Return the names of functions and classes that the module of that name lacks. Other owners may be objects."""
    return [
        match[0]
        for match in DOTTED.finditer(words)
        if (match[1] in MODULES and match[2] not in SUFFIXES and match[0].strip("`") not in SETTING_NAMES)
        and not any(re.search(rf"\b{match[2]}\b", module) for module in MODULES[match[1]])
    ]


@for_each(sources(".py", ".pyx", ".pxd", folders=CODE))
def test_named_functions_exist(path: Path) -> None:
    assert relative(path) == "tests/tidy/test_dotted_names.py" or not unknown(text(path))


def test_a_name_that_a_module_lacks_is_found() -> None:
    words = "`append.no_such_function`, `log/append.no_such_class()`, `append.write_batches`, `records.batch`, `log.dirs`"
    assert unknown(words) == ["`append.no_such_function`", "`log/append.no_such_class()`"]
