"""The command line as Kafka's tools read it."""

from __future__ import annotations

import pytest

from pybroker.tools.errors import NOT_SUPPORTED, CommandError
from pybroker.tools.options import FLAG, MAYBE, VALUE, Options, parse

KINDS = {"list": FLAG, "topic": VALUE, "partitions": VALUE, "partition-size": VALUE, "state": MAYBE, "config": VALUE, "b": VALUE}


def parsed(*words: str) -> Options:
    return parse("kafka-toy", KINDS, list(words))


@pytest.mark.parametrize("words", [("--topic", "t"), ("--topic=t",), ("-topic", "t"), ("--topi", "t"), ("--to=t",)])
def test_an_option_has_several_spellings(words: tuple[str, ...]) -> None:
    assert parsed(*words).value("topic") == "t"


def test_a_value_may_look_like_an_option() -> None:
    assert parsed("--partitions", "-1").number("partitions") == -1


def test_options_keep_their_order_and_their_equals_signs() -> None:
    options = parsed("--config", "a=b=c", "--list", "--config=x=y", "rest", "--", "--list")
    assert options.values("config") == ["a=b=c", "x=y"]
    assert options.given == [("config", "a=b=c"), ("list", None), ("config", "x=y")]
    assert options.rest == ["rest", "--list"]


def test_the_singular_is_the_plural() -> None:
    assert parsed("--partition", "3").number("partitions") == 3


@pytest.mark.parametrize("words", [("--state",), ("--state", "--list")])
def test_a_value_can_be_left_out_where_it_may(words: tuple[str, ...]) -> None:
    assert parsed(*words).has("state")
    assert parsed(*words).value("state") is None
    assert parsed("--state", "stable").value("state") == "stable"


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["--frob"], "kafka-toy: --frob is not supported; kafka-toy --help lists what is", NOT_SUPPORTED),
        (["--frob=3"], "kafka-toy: --frob is not supported; kafka-toy --help lists what is", NOT_SUPPORTED),
        (["-l"], "kafka-toy: -l is not supported; kafka-toy --help lists what is", NOT_SUPPORTED),
        (["--par", "1"], "kafka-toy: --par may be --partitions, --partition-size", NOT_SUPPORTED),
        (["--topic"], "Option topic requires an argument", 1),
        (["--list=1"], "Option list does not take a value", 1),
    ],
)
def test_what_cannot_be_read_is_one_line(words: list[str], message: str, code: int) -> None:
    with pytest.raises(CommandError) as raised:
        parsed(*words)
    assert (str(raised.value), raised.value.code) == (message, code)


def test_what_is_asked_once_must_be_given_once() -> None:
    with pytest.raises(CommandError, match="Found multiple arguments for option topic, but you asked for only one"):
        parsed("--topic", "a", "--topic", "b").value("topic")


@pytest.mark.parametrize("text", ["three", "3.0", "", "1_000", "2147483648", "-2147483648", "\u0663"])
def test_what_is_no_number_of_32_bits(text: str) -> None:
    with pytest.raises(CommandError, match=f"Cannot parse argument '{text}' of option partitions"):
        parsed("--partitions", text).number("partitions")


def test_numbers_of_64_bits() -> None:
    assert parsed("--partitions", "-9223372036854775807").number("partitions", is_long=True) == -(2**63 - 1)
    with pytest.raises(CommandError, match="Cannot parse argument '9223372036854775808' of option partitions"):
        parsed("--partitions", "9223372036854775808").number("partitions", is_long=True)


def test_what_is_missing_or_too_much_is_named_as_kafka_names_it() -> None:
    with pytest.raises(CommandError) as raised:
        parsed("--list").require("list", "topic")
    assert str(raised.value) == 'Missing required argument "[topic]"'
    with pytest.raises(CommandError) as raised:
        parsed("--list", "--topic", "t").forbid("topic", ("b", "list"))
    assert str(raised.value) == 'Option "[topic]" can\'t be used with option "[list]"'
