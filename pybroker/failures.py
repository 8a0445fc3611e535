"""Exceptions that were handled."""

from __future__ import annotations

from typing import TypeVar

Error = TypeVar("Error", bound=BaseException)


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
