"""Stages of a Dockerfile without an engine: what is copied and run, where, and what ends a build."""

from __future__ import annotations

from pathlib import Path

import pytest

from testing.containers.engine import CAUSE_LINES, cause
from testing.containers.stages import Builder, Ignored, StageError, stages
from testing.places import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()


@pytest.fixture
def context(tmp_path: Path) -> Path:
    folder = tmp_path / "context"
    (folder / "package" / "inner").mkdir(parents=True)
    (folder / "package" / "inner" / "kept.py").write_text("kept")
    (folder / "package" / "inner" / "built.so").write_text("built")
    (folder / "secret").write_text("secret")
    (folder / ".dockerignore").write_text("# a comment\n*\n!package\n**/*.so\n")
    return folder


def build(context: Path, dockerfile: str, stage: str) -> Path:
    return Builder(dockerfile, context, context.parent / "stages").build(stage)


def test_a_stage_has_what_its_base_and_other_stages_made(context: Path) -> None:
    dockerfile = """\
FROM python:3 AS tools
ENV PATH=/opt/bin:$PATH WORD=hello
WORKDIR /work
# A comment
RUN mkdir -p /opt/bin && \\
    printf '#!/bin/sh\\necho "$WORD" $1' >/opt/bin/say && chmod +x /opt/bin/say 2>/dev/null
FROM tools AS other
COPY package package
RUN rm package/inner/*
FROM python:3 AS unrelated
RUN false
FROM tools AS last
COPY package copied
COPY --from=other /work/package emptied
RUN say there >said && python -c "import sys" && test ! -e /work/package
USER 1000
"""
    root = build(context, dockerfile, "last")
    assert (root / "work" / "said").read_text() == "hello there\n"
    assert [path.name for path in (root / "work" / "copied" / "inner").iterdir()] == ["kept.py"]
    assert list((root / "work" / "emptied" / "inner").iterdir()) == []
    assert (context / "package" / "inner" / "built.so").exists()


def test_a_command_that_fails_ends_the_build_with_its_cause(context: Path) -> None:
    dockerfile = "FROM python:3 AS one\nRUN true\nFROM one AS two\nRUN echo words && python -c 'import nothing.at.all'\n"
    with pytest.raises(StageError) as raised:
        build(context, dockerfile, "two")
    assert str(raised.value) == (
        "two: RUN echo words && python -c 'import nothing.at.all'\nexit code 1\nwords\n"
        "ModuleNotFoundError: No module named 'nothing'"
    )


@pytest.mark.parametrize("source", ["secret", "package/inner/built.so", "missing"])
def test_what_is_not_in_the_context_cannot_be_copied(context: Path, source: str) -> None:
    with pytest.raises(StageError, match=f"{source} is not in the context"):
        build(context, f"FROM python:3 AS one\nCOPY {source} ./\n", "one")


@pytest.mark.parametrize("instruction", ["ADD package ./", "COPY --chown=1 package ./"])
def test_an_instruction_that_is_not_understood_ends_the_build(context: Path, instruction: str) -> None:
    with pytest.raises(StageError, match="is not known here"):
        build(context, f"FROM python:3 AS one\n{instruction}\n", "one")


def test_commands_of_the_machine_are_left_out(context: Path) -> None:
    root = build(context, "FROM python:3 AS one\nRUN apt-get update && false\nRUN mkdir /made\n", "one")
    assert (root / "made").is_dir()


def test_the_stages_of_the_image_are_found() -> None:
    found = stages(DOCKERFILE)
    assert found["builder"].base == "tools"
    assert [word for word, _ in found["native-sources"].instructions] == ["COPY", "RUN"]


def test_the_images_context_has_sources_and_nothing_built() -> None:
    ignored = Ignored((ROOT / ".dockerignore").read_text())
    for path in ("pybroker/clock.py", "container/root/etc", "README.md"):
        assert Path(path) not in ignored, path
    for path in (
        "docs/operate.md",
        "pybroker/_clock_native.so",
        "pybroker/api/__pycache__/x",
        "container/grafana/dashboards/a.json",
    ):
        assert Path(path) in ignored, path


def test_the_cause_is_the_end_of_the_last_step_without_calls() -> None:
    lines = "".join(f"line {number}\n" for number in range(2 * CAUSE_LINES))
    trace = 'Traceback (most recent call last):\n  File "setup.py", line 1, in <module>\n    run()\nValueError: bad\n'
    assert cause(f"STEP 1/2: FROM x\nearly\nSTEP 2/2: RUN y\nlate\n{trace}Error: exit status 1\n") == (
        "late\nValueError: bad\nError: exit status 1"
    )
    assert cause("#9 1.0 " + "#9 1.0 ".join(trace.splitlines(keepends=True))) == "#9 1.0 ValueError: bad"
    assert len(cause(lines).splitlines()) == CAUSE_LINES
