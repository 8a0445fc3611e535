"""The folder of a result, which exists whole or not at all, whatever process is killed.

    counts/*.parquet     the table
    summary.json         its totals
    completeness.png     the picture
    index.html           the report, which needs no other files
    state/               what an incremental audit needs for its next pass

A pass writes to a hidden folder beside the result and renames that at the end. It replaces what was there before if that is a
result.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pybroker.spark.audit.state import STATE
from pybroker.spark.errors import PipelineError

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = 1
TABLE: Final = "counts"
SUMMARY: Final = "summary.json"
PICTURE: Final = "completeness.png"
PAGE: Final = "index.html"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Provide a folder to write to, which replaces `path` when the block ends without an error. Raises PipelineError."""
    path = path.absolute()
    if path.exists() and not path.is_dir():
        raise PipelineError(f"{path} is not a directory")
    if path.is_dir() and any(path.iterdir()):
        read_summary(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        staging = path.with_name(f".{path.name}.{uuid.uuid4().hex}.new")
        staging.mkdir()
        lock = os.open(staging, os.O_RDONLY)
    except OSError as error:
        raise PipelineError(f"{path.parent}: {error.strerror}") from error
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield staging
        _take_place(staging, path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        os.close(lock)


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write the totals of the table. This file marks a folder as a result."""
    with (folder / SUMMARY).open("w") as file:
        json.dump({"format": FORMAT, **summary}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def read_summary(path: Path) -> dict[str, Any]:
    """Read the summary of a result. Raises PipelineError when the folder is not a result."""
    try:
        summary = json.loads((path / SUMMARY).read_text())
    except (OSError, ValueError) as error:
        raise PipelineError(f"{path} is not empty and is not the result of an audit: its {SUMMARY} is missing") from error
    if not isinstance(summary, dict) or summary.get("format") != FORMAT:
        raise PipelineError(f"{path} is not the result of an audit of this version")
    return summary


def _take_place(staging: Path, path: Path) -> None:
    try:
        if path.exists():
            old = path.with_name(f".{path.name}.{uuid.uuid4().hex}.old")
            path.rename(old)
            staging.rename(path)
            shutil.rmtree(old, ignore_errors=True)
        else:
            staging.rename(path)
    except OSError as error:
        raise PipelineError(f"{path}: {error.strerror}") from error


def check_not_followed(path: Path) -> None:
    """Check that a pass over everything may replace what is in the folder. Raises PipelineError."""
    if (path / STATE).is_dir():
        raise PipelineError(
            f"{path} belongs to an incremental audit: continue it with --incremental or --every, or give another folder"
        )


def mended(path: Path) -> None:
    """Put back a folder that a kill has left between the two renames. Call this before reading the folder."""
    path = path.absolute()
    if path.parent.is_dir():
        _sweep(path)


def _sweep(path: Path) -> None:
    """Delete what killed passes have left, or put it back. A pass that still runs holds a lock on its folder."""
    for left in [*path.parent.glob(f".{path.name}.*.new"), *path.parent.glob(f".{path.name}.*.old")]:
        lock = os.open(left, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if left.suffix == ".old" and not path.exists():  # killed between the two renames
                left.rename(path)
            else:
                shutil.rmtree(left, ignore_errors=True)
        except OSError:
            continue
        finally:
            os.close(lock)
