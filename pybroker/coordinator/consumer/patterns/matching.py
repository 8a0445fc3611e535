"""The topics of an image that a regular expression matches.

The image remembers them, for all groups: an expression is matched once for an image and, if it was matched for the image before,
only with the names that are new. An expression that the image does not know, or not any more, is matched name by name in slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.coordinator.consumer.patterns.re2_syntax import PatternError
from pybroker.coordinator.consumer.patterns.topic_pattern import MAX_LENGTH, TopicPattern
from pybroker.metadata.names import is_internal
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Set

    from pybroker.metadata.image import ClusterImage
    from pybroker.sharing.work import Pausing

MATCHED_MAX: Final = 1_000
"""The number of regular expressions that an image remembers."""


class _Matched(NamedTuple):
    pattern: TopicPattern
    names: frozenset[str]


class _Failed(NamedTuple):
    """The reason why an expression is refused, so that it is not tried again for the same image."""

    reason: str


def match(regex: str, image: ClusterImage, before: ClusterImage | None) -> Pausing[frozenset[str]]:
    """Find the topics of `image` that the expression matches; yield between names, if the image does not know it. `before` is an
    image that may remember it.

    Raises KafkaError with INVALID_REGULAR_EXPRESSION.
    """
    known: dict[str, _Matched | _Failed] = image.derived.setdefault(_Matched, {})
    if (found := known.get(regex)) is None:
        found = yield from _find(regex, image, before)
        while len(known) >= MATCHED_MAX:
            del known[next(iter(known))]  # the oldest
        if len(regex) <= MAX_LENGTH:  # a longer one is refused by its length, and not kept
            known[regex] = found
    if isinstance(found, _Failed):
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {found.reason}.",
        )
    return found.names


def _find(regex: str, image: ClusterImage, before: ClusterImage | None) -> Pausing[_Matched | _Failed]:
    earlier = None if before is None else before.derived.get(_Matched, {}).get(regex)
    names: set[str] = set()
    new: Set[str] = image.topics.keys()
    try:
        if before is not None and isinstance(earlier, _Matched):
            pattern = earlier.pattern
            names, new = set(earlier.names & image.topics.keys()), image.topics.keys() - before.topics.keys()
        else:
            pattern = TopicPattern(regex)
        yield
        pattern.begin()
        for name in new:
            if not is_internal(name) and pattern.matches(name):
                names.add(name)
            yield
    except PatternError as error:
        return _Failed(str(error))
    return _Matched(pattern, frozenset(names))
