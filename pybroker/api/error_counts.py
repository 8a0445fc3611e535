"""Finds the error codes in a response, for the metrics that count them.

Behaviour
    Every `error_code` in the response's lists counts, as its declaration has them. The code of the response itself counts only if
    it is an error, or if no other part has a code. The exceptions are listed below.

Cost
    About 3 % of the broker's instructions for a Produce or a Fetch of one record (docs/design/cost.md): the loops are made for a
    class when its first response is counted, and those over one and two lists, which nearly all responses have, call no function.

Source: AbstractResponse.errorCounts of each response.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.schema import schema_of

_Reader = Callable[[Any], Sequence[int]]

NEVER, ALWAYS, IF_SET_OR_ALONE = range(3)
"""When the code of a message itself counts."""


def error_codes(response: Any) -> Sequence[int]:
    """Return every code in `response`, NONE (0) included, one for each thing that can fail by itself."""
    return error_reader(type(response))(response)


ERROR_NAMES: Final[dict[int, str]] = {int(code): code.name for code in ErrorCode}


_code: Final[Callable[[Any], int]] = attrgetter("error_code")


class Places(NamedTuple):
    """The places where the messages of a class have codes: their own, and those in lists of messages by the lists' names."""

    own: int
    inner: tuple[tuple[str, Places], ...]


def error_reader(response_class: type) -> _Reader:
    """Return the function that finds the codes of a class of responses."""
    reader = _READERS.get(response_class)
    if reader is None:
        if schema_of(response_class).api_key is ApiKey.ADD_PARTITIONS_TO_TXN:
            reader = _of_added_partitions
        else:
            reader = _reader(places_of(response_class))
        _READERS[response_class] = reader
    return reader


_READERS: Final[dict[type, _Reader]] = {}
"""The functions that were made so far."""


def _of_added_partitions(response: Any) -> Sequence[int]:
    """Return the codes of an AddPartitionsToTxn, whose field has another name."""
    topics = [*response.results_by_topic_v3_and_below]
    for transaction in response.results_by_transaction:
        topics += transaction.topic_results
    codes = [partition.partition_error_code for topic in topics for partition in topic.results_by_partition]
    return [*codes, response.error_code] if response.error_code or not codes else codes


def places_of(response_class: type) -> Places:
    """Return where a response has the codes that count."""
    places = _declared(response_class)
    api_key = schema_of(response_class).api_key
    if api_key is ApiKey.FETCH:  # Kafka always counts Fetch's own code
        return places._replace(own=ALWAYS)
    if api_key in _ONLY_OF_TOPICS:
        return places._replace(inner=tuple((name, topics._replace(inner=())) for name, topics in places.inner))
    return places


_ONLY_OF_TOPICS: Final = (ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS)
"""The APIs for which Kafka counts no codes of partitions."""


def _declared(cls: type) -> Places:
    """Return all places that the declaration has."""
    fields = schema_of(cls).fields
    has_own = any(field.name == "error_code" for field in fields)
    inside = [(field.name, _declared(field.struct)) for field in fields if field.is_array and field.struct is not None]
    inner = tuple((name, places) for name, places in inside if places.own or places.inner)
    return Places(IF_SET_OR_ALONE if has_own else NEVER, inner)


def _reader(places: Places) -> _Reader:
    """Make the function that reads the codes of one message."""
    own = places.own
    if not places.inner:
        return (lambda message: (message.error_code,)) if own else (lambda _: ())
    readers = [_list_reader(*inner) for inner in places.inner]
    read_lists = (
        readers[0] if len(readers) == 1 else lambda message: list(chain.from_iterable([read(message) for read in readers]))
    )
    if own == NEVER:
        return read_lists

    def read_all(message: Any) -> list[int]:
        codes = read_lists(message)
        if own == ALWAYS or not codes or message.error_code:
            codes.append(message.error_code)
        return codes

    return read_all


def _list_reader(name: str, places: Places) -> Callable[[Any], list[int]]:
    """Make the function that reads the codes of all messages in the list `name` of a message."""
    messages = attrgetter(name)
    if not places.inner:

        def read_list(message: Any) -> list[int]:
            return [one.error_code for one in messages(message) or ()]

        return read_list
    if places.own == NEVER and len(places.inner) == 1 and not places.inner[0][1].inner:
        inner_messages = attrgetter(places.inner[0][0])

        def read_list_of_lists(message: Any) -> list[int]:
            codes: list[int] = []
            for one in messages(message) or ():
                codes += map(_code, inner_messages(one) or ())
            return codes

        return read_list_of_lists
    read = _reader(places)
    return lambda message: [code for one in messages(message) or () for code in read(one)]
