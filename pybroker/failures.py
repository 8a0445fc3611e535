"""Exceptions that were handled, and those that are a shortage."""

from __future__ import annotations

import errno
from typing import Final, TypeVar

Error = TypeVar("Error", bound=BaseException)

SHORTAGES: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM))


def is_shortage(error: BaseException) -> bool:
    """Return whether the system lacks memory, threads, descriptors or maps: what failed is no bug, and may be tried again."""
    if isinstance(error, RuntimeError):
        return "start new thread" in str(error)  # the interpreter has no class for it
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in SHORTAGES)


def drop_frames(error: Error) -> Error:
    """Let go of the frames of an exception that was handled, or that is kept as a value, and return it.

    The frames of its traceback refer to all that the failed work had made, and to their callers, one of which mostly refers to
    the exception: a cycle, in which all of that would live until the garbage collector runs. Log the traceback before.
    """
    related: BaseException | None = error
    while related is not None and related.__traceback__ is not None:
        related.__traceback__ = None
        related = related.__cause__ or related.__context__
    return error
