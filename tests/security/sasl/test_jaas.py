"""The syntax of login modules, with Kafka's examples."""

from __future__ import annotations

import pytest

from pybroker.security.sasl.jaas import JaasError, LoginModule, parse_modules, parse_sections

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_options_are_read_with_and_without_quotes() -> None:
    text = f'{MODULE} required\n  username="admin" password=admin-secret user_alice="a \\"b\\" = ; c" ;'
    assert parse_modules(text) == [
        LoginModule(MODULE, {"username": "admin", "password": "admin-secret", "user_alice": 'a "b" = ; c'})
    ]


def test_a_property_may_have_several_modules() -> None:
    assert [one.name for one in parse_modules("a.B required; /* c */ d.E$F OPTIONAL x=1; // end")] == ["a.B", "d.E$F"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "names no login module"),
        ("a.B", "control flag of a login module is missing"),
        ("a.B must secret=x;", "control flag of a login module is not one of"),
        ("a.B required secret", "option number 1 is not NAME=VALUE"),
        ("a.B required secret;", "option number 1 is not NAME=VALUE"),
        ("a.B required secret=;", "option number 1 has no value"),
        ("a.B required secret=x", "does not end with a semicolon"),
        ('a.B required secret="x', "character 21 needs quotes"),
        ("a.B required x=#secret;", "character 16 needs quotes"),
    ],
)
def test_a_fault_is_named_without_the_text(text: str, problem: str) -> None:
    with pytest.raises(JaasError) as error:
        parse_modules(text)
    assert problem in str(error.value)
    assert "secret" not in str(error.value)


def test_a_module_as_a_text_is_the_module() -> None:
    module = LoginModule("a.B", {"x": 'a\\b"c\nd', "user_e": ""})
    assert parse_modules(module.text()) == [module]


def test_the_sections_of_a_file() -> None:
    text = """
    KafkaServer { a.B required username="u" ; c.D optional; };
    sasl_ssl.KafkaServer {
        a.B required; // one
    };
    Client {};
    """
    modules = [LoginModule("a.B", {"username": "u"}), LoginModule("c.D", {})]
    assert parse_sections(text) == {"KafkaServer": modules, "sasl_ssl.KafkaServer": [LoginModule("a.B", {})], "Client": []}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{};", "a section has no name"),
        ("A a.B required;", "not between braces"),
        ("A { a.B required secret=x; ", "does not end with a brace"),
        ("A { a.B required secret=x; }", "a section does not end with a semicolon"),
        ("A { a.B required secret=x };", "an option has no name"),
    ],
)
def test_a_fault_of_a_file_is_named_without_the_text(text: str, problem: str) -> None:
    with pytest.raises(JaasError, match=problem) as error:
        parse_sections(text)
    assert "secret" not in str(error.value)
