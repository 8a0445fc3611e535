"""The versions of Python that the broker runs on are the same wherever a person or a tool reads them."""

from __future__ import annotations

import re
import tomllib

from testing.places import ROOT

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_each_version_that_may_be_installed_has_a_classifier_and_a_wheel() -> None:
    found = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", SETTINGS["project"]["requires-python"])
    assert found
    minors = range(int(found[1]), int(found[2]))
    classifiers = SETTINGS["project"]["classifiers"]
    assert [one for one in classifiers if "Python ::" in one] == [f"Programming Language :: Python :: 3.{one}" for one in minors]
    assert SETTINGS["tool"]["cibuildwheel"]["build"] == [f"cp3{one}-*" for one in minors]
    assert SETTINGS["tool"]["ruff"]["target-version"] == f"py3{minors[0]}"
    assert SETTINGS["tool"]["mypy"]["python_version"] == f"3.{minors[0]}"
    for name in ("README.md", "Makefile"):
        assert f"Python 3.{minors[0]} to 3.{minors[-1]}" in (ROOT / name).read_text()
    images = re.findall(r"FROM python:3\.(\d+)-", (ROOT / "Dockerfile").read_text())
    assert images
    assert all(int(one) in minors for one in images)
