"""No text sends a person to a package index for pybroker: it is on none, and another project has its name there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.tidy.sources import ROOT, documents, for_each, relative, sources, text

FROM_INDEX = re.compile(r"""(?:pip install|pipx \w+|uvx|uv (?:add|pip install))(?: -\S+)* ["']?pybroker\b""")
TEXTS = [*sources(".py", ".yml", ".sh"), *documents(), ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / "Dockerfile"]


def test_the_pattern_finds_an_index_and_no_clone() -> None:
    for command in ("pip install 'pybroker[spark]'", "pip install --upgrade pybroker", "uvx pybroker start"):
        assert FROM_INDEX.search(command), command
    for command in ("pip install '.[spark]' in a clone of pybroker", "python -m pip install ."):
        assert not FROM_INDEX.search(command), command


@for_each([path for path in TEXTS if path.name not in {Path(__file__).name, "CHANGELOG.md"}])
def test_no_text_installs_pybroker_from_an_index(path: Path) -> None:
    found = FROM_INDEX.search(text(path))
    assert not found, f"{relative(path)}: {found}"


def test_extras_are_for_users_and_groups_for_tests() -> None:
    project = tomllib.loads(text(ROOT / "pyproject.toml"))
    extras, groups = project["project"]["optional-dependencies"], project["dependency-groups"]
    assert extras.keys() == {"console", "security", "spark"}
    makefile = text(ROOT / "Makefile")
    assert set(re.findall(r"pybroker\[(\w+)\]", makefile)) <= extras.keys()
    assert set(re.findall(r"--group (\w+)", makefile)) == groups.keys() - {"fuzz"}


def test_make_prints_what_it_does_before_it_installs() -> None:
    recipes = re.findall(r"^\$\(VENV\)/\.(\w+):.*\n\t(.*)", text(ROOT / "Makefile"), re.MULTILINE)
    assert [name for name, _ in recipes] == ["pip", "run", "unit", "test", "containers", "audit"]
    for name, first in recipes:
        assert first.startswith(('@echo "Installing ', "$(call INSTALL_MANY,")), name
    assert '\ndefine INSTALL_MANY\n@echo "Installing into $(VENV): $(2)"\n' in text(ROOT / "Makefile")
