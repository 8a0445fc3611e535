"""The Dockerfile's stages without an engine: the commands of the file itself, in folders that take the place of images.

    python -m testing.containers.stages [STAGE]        broker, if no other is named

Each stage has a folder that is its root directory. Absolute paths in commands are taken as paths in it, and a stage that begins
with another begins with a copy of that one's folder. `python` is this one, and other programs are the machine's. So commands that
use Debian's package manager or give files to an owner are left out. What they install, a compiler for one, must be there.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testing.containers.engine import BUILD_TIMEOUT_S, EngineError, cause
from testing.places import ROOT

PASSED_OVER: Final = frozenset({"LABEL", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "CMD"})
"""Instructions about containers. They change no file."""
OF_THE_MACHINE: Final = re.compile(r"apt-get|--owner=")
ABSOLUTE: Final = re.compile(r"(?<![\w.*})~!/-])/(?!dev/|tmp\b)(?=[a-z])")


class StageError(EngineError):
    """A stage cannot be built. The message names the instruction and the cause."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a Dockerfile: its base, and its instructions as pairs of a word and the rest."""

    base: str
    instructions: tuple[tuple[str, str], ...]


def stages(dockerfile: str) -> dict[str, Stage]:
    """Return the stages by name."""
    text = re.sub(r"^#.*\n", "", dockerfile, flags=re.MULTILINE)
    found: dict[str, Stage] = {}
    for part in re.split(r"^(?=FROM )", text, flags=re.MULTILINE)[1:]:
        (_, first), *rest = [(word, line) for word, _, line in (one.partition(" ") for one in _lines(part))]
        base, _, name = first.split()
        found[name] = Stage(base, tuple(rest))
    return found


def _lines(text: str) -> Iterator[str]:
    """Yield the instructions, each as one line."""
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if line.strip():
            yield line.strip()


class Ignored:
    """The paths that .dockerignore leaves out of the context. The last pattern that matches decides; `*` also matches a slash."""

    def __init__(self, text: str) -> None:
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        self._patterns = [(line.removeprefix("!"), line.startswith("!")) for line in lines]

    def __contains__(self, path: Path) -> bool:
        names = [str(path), *(str(parent) for parent in path.parents)]
        matching = [is_kept for pattern, is_kept in self._patterns if any(fnmatch.fnmatchcase(name, pattern) for name in names)]
        return bool(matching) and not matching[-1]


class Builder:
    """Builds stages below a folder. The context is a folder with a .dockerignore."""

    def __init__(self, dockerfile: str, context: Path, folder: Path) -> None:
        self._stages = stages(dockerfile)
        self._context, self._folder = context, folder
        self._ignored = Ignored((context / ".dockerignore").read_text())
        self._built: dict[str, tuple[str, dict[str, str]]] = {}  # the working directory and the variables at the end of a stage

    def build(self, name: str) -> Path:
        """Build the stage and those that it needs, unless they have been built, and return its root. Raises StageError."""
        root = self._folder / name
        if name in self._built:
            return root
        stage = self._stages[name]
        if stage.base in self._stages:
            base = self.build(stage.base)
            shutil.copytree(base, root, symlinks=True)
            directory, variables = self._built[stage.base]
            variables = {variable: value.replace(f"{base}/", f"{root}/") for variable, value in variables.items()}
        else:
            directory, variables = "", _base(root)
        for word, rest in stage.instructions:
            if word == "ENV":
                variables.update(_variables(rest, root, variables))
            elif word == "WORKDIR":
                directory = rest.lstrip("/")
                (root / directory).mkdir(parents=True, exist_ok=True)
            elif word == "COPY":
                self._copy(rest.split(), root, root / directory)
            elif word == "RUN":
                _run(f"{name}: RUN {rest}", ABSOLUTE.sub(f"{root}/", rest), root / directory, variables)
            elif word not in PASSED_OVER:
                raise StageError(f"{name}: {word} is not known here")
        self._built[name] = directory, variables
        return root

    def _copy(self, words: list[str], root: Path, place: Path) -> None:
        """Copy files, and what is in folders, as COPY does."""
        start, options = self._context, [word for word in words if word.startswith("--")]
        *sources, target = words[len(options) :]
        for option in options:
            if not option.startswith("--from="):
                raise StageError(f"COPY {' '.join(words)}: {option} is not known here")
            start = self.build(option.removeprefix("--from="))
        to = root / target.lstrip("/") if target.startswith("/") else place / target
        for source in sources:
            path = start / source.lstrip("/")
            if not path.exists() or (start == self._context and Path(source) in self._ignored):
                raise StageError(f"COPY {' '.join(words)}: {source} is not in the context")
            if path.is_dir():
                ignore = self._ignore if start == self._context else None
                shutil.copytree(path, to, symlinks=True, ignore=ignore, dirs_exist_ok=True)
            else:
                file = to / path.name if target.endswith(("/", ".")) else to
                file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, file)

    def _ignore(self, folder: str, names: list[str]) -> list[str]:
        inside = Path(folder).relative_to(self._context)
        return [name for name in names if inside / name in self._ignored]


def _base(root: Path) -> dict[str, str]:
    """Make the root of a stage that begins with the base image, and return its variables."""
    programs = root / "usr" / "local" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "python3"):
        (programs / name).symlink_to(Path(sys.executable).resolve())
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYBROKER_", "KAFKA_"))}
    return {**ours, "PATH": f"{programs}:{os.environ['PATH']}"}


def _variables(text: str, root: Path, known: Mapping[str, str]) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in ABSOLUTE.sub(f"{root}/", text).split()]
    return {name: re.sub(r"\$(\w+)", lambda variable: known[variable[1]], value) for name, _, value in pairs}


def _run(instruction: str, command: str, place: Path, variables: Mapping[str, str]) -> None:
    if OF_THE_MACHINE.search(command):
        print(f"left out, {instruction}", flush=True)
        return
    print(instruction, flush=True)
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=place,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise StageError(f"{instruction}\nexit code {done.returncode}\n{cause(done.stdout)}")


def build(name: str = "broker") -> None:
    """Build a stage of the Dockerfile from this checkout, and remove it again. Raises StageError."""
    with tempfile.TemporaryDirectory(prefix="stages-") as folder:
        Builder((ROOT / "Dockerfile").read_text(), ROOT, Path(folder)).build(name)


if __name__ == "__main__":
    try:
        build(*sys.argv[1:])
    except StageError as error:
        sys.exit(f"Error: {error}")
