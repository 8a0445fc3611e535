"""The choice of topics that all jobs have: by name, or by a regular expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from pybroker.listed import did_you_mean
from pybroker.spark.errors import PipelineError

Known = TypeVar("Known")


def chosen(
    existing: Mapping[str, Known],
    names: Collection[str],
    pattern: str | None,
    where: str,
    others: Callable[[], Iterable[str]] = tuple,
) -> dict[str, Known]:
    """Return the topics with these names, in their order, or with a pattern all that it matches whole, sorted.

    `where` names the cluster, and `others` returns names that may have been meant beside the existing ones. Raises
    PipelineError when a name is missing, or when the pattern is not a regular expression.
    """
    if pattern is None:
        missing = [name for name in names if name not in existing]
        if missing:
            raise PipelineError(f"no topic {', '.join(missing)} at {where}{did_you_mean(missing[0], {*existing, *others()})}")
        return {name: existing[name] for name in names}
    try:
        matching = {name for name in existing if re.fullmatch(pattern, name)}
    except re.error as error:
        raise PipelineError(f"{pattern!r} is not a regular expression: {error}") from error
    return {name: existing[name] for name in sorted(matching)}
