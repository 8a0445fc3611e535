"""Reduces Spark's long exceptions to one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pybroker.spark.errors import PipelineError

_FROM_A_TASK: Final = re.compile(r"pybroker\.spark\.errors\.PipelineError: ([^\n]+)")
_CAUSES: Final = (
    re.compile(r"Caused by: (?:[\w.$]+\.)?([A-Z]\w*(?:Exception|Error)): ([^\n]+)"),
    re.compile(r"(?:[\w.$]+\.)([A-Z]\w*(?:Exception|Error)): ([^\n]+)"),
)
AWAY: Final = re.compile(
    r"TimeoutException|DisconnectException|Failed to construct kafka|NetworkException|Timed out waiting for a node|"
    r"LEADER_NOT_AVAILABLE|CoordinatorNotAvailable|TimeoutError|_TRANSPORT|_ALL_BROKERS_DOWN"
)
"""The error that Spark's connector reports when no broker responds."""


def explain(error: BaseException) -> str:
    """Return the one line that matters of an exception of Spark, its JVM or its tasks."""
    if isinstance(error, PipelineError):
        return str(error)
    text = whole_text(error)
    own = _FROM_A_TASK.search(text)
    if own:
        return own[1].strip()
    for pattern in _CAUSES:
        causes = pattern.findall(text)
        if causes:
            name, message = causes[-1]
            return f"{name}: {message.strip()}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def whole_text(error: BaseException) -> str:
    """Return the whole text of an exception, with the Java stack and its causes."""
    parts = [str(error)]
    trace = getattr(error, "_stackTrace", None) or getattr(error, "stackTrace", None)
    if isinstance(trace, str):
        parts.append(trace)
    java = getattr(error, "java_exception", None)
    if java is not None:
        parts.append(str(error))
    return "\n".join(parts)


@contextmanager
def explained() -> Iterator[None]:
    """Turn what Spark raises in the block into a PipelineError of one line."""
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:
        raise PipelineError(explain(error)) from error
