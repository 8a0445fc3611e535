from __future__ import annotations

import pytest

from pybroker.config.setting import ConfigError, Kind, Setting, Value, all_of, between, between_or, one_of
from pybroker.config.table import BROKER_SETTINGS
from pybroker.config.topic_settings import TOPIC_SETTINGS
from testing.turns import watched

ALL = [*BROKER_SETTINGS.values(), *TOPIC_SETTINGS.values()]


def of(kind: Kind, default: Value = 0) -> Setting:
    return Setting("some.name", kind, default, "")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.BOOLEAN, " TRUE ", True),
        (Kind.BOOLEAN, "False", False),
        (Kind.INT, "+5", 5),
        (Kind.INT, "-2147483648", -(2**31)),
        (Kind.LONG, " 9223372036854775807 ", 2**63 - 1),
        (Kind.SHORT, "-1", -1),
        (Kind.DOUBLE, "0.5", 0.5),
        (Kind.DOUBLE, "1.7976931348623157E308", 1.7976931348623157e308),
        (Kind.STRING, "  a b ", "a b"),
        (Kind.LIST, "a , b,c", ("a", "b", "c")),
        (Kind.LIST, "", ()),
        (Kind.LIST, "a,", ("a", "")),
        (Kind.LIST, ",", ("", "")),
        (Kind.LIST, "a,\t,\u2003b c\x1f,", ("a", "", "b c", "")),
    ],
)
def test_texts_are_read_as_kafka_reads_them(kind: Kind, text: str, value: Value) -> None:
    assert of(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *((Kind.BOOLEAN, text) for text in ("yes", "1", "", "on", "truee")),
        *((Kind.INT, text) for text in ("", "1.0", "1_000", "0x10", "2147483648", "-2147483649", "1k", "٣")),
        *((Kind.LONG, text) for text in ("9223372036854775808", "1e3")),
        pytest.param(Kind.LONG, "9" * 5_000, id="a number that Python does not read"),
        (Kind.SHORT, "32768"),
        *((Kind.DOUBLE, text) for text in ("", "half", "nan")),
    ],
)
def test_other_texts_are_refused_with_key_and_value(kind: Kind, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        of(kind).parse(text)
    assert (caught.value.key, caught.value.value) == ("some.name", text)
    assert str(caught.value).startswith(f"some.name={text}: must ")


@pytest.mark.judges_time
def test_a_list_with_a_long_run_of_spaces_is_read_in_one_look() -> None:
    run = "a" + " " * 32_000
    with watched(limit_ms=20) as turns:
        assert turns.run(of(Kind.LIST).parse, f"{run}b,c") == (f"{run}b", "c")
    assert turns.long_texts() == []


def test_null_is_an_empty_text_only_where_it_is_the_default() -> None:
    assert of(Kind.LONG, None).parse(" ") is None
    assert of(Kind.LONG, None).format(None) == ""


def test_checks() -> None:
    assert [v for v in range(-2, 12) if between_or(1, 9, -1).accepts(v)] == [-1, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert [v for v in range(4) if between(1, 2).accepts(v)] == [1, 2]
    assert one_of("a", "b").accepts("a")
    assert not one_of("a", "b").accepts("A")
    assert all_of("a", "b").accepts(("b", "a"))
    assert not all_of("a", "b").accepts(("a", ""))


def test_a_password_is_never_shown() -> None:
    setting = Setting("secret", Kind.PASSWORD, "", "", one_of("x"))
    with pytest.raises(ConfigError) as caught:
        setting.parse("hunter2")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("setting", ALL, ids=lambda setting: setting.name)
def test_every_rows_default_passes_its_own_check_and_its_text_comes_back(setting: Setting) -> None:
    assert setting.parse(setting.format(setting.default)) == setting.default
    assert setting.doc.endswith((".", ".)")), "a sentence"
    assert setting.attribute.isidentifier()
    assert setting.name == setting.attribute.replace("_", "."), "the attribute has the name"
