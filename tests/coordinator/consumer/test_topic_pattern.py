"""Regular expressions of RE2's language are matched in a time that grows with the text, not with the number of alternatives."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pybroker.coordinator.consumer.patterns.re2_syntax import PatternError
from pybroker.coordinator.consumer.patterns.topic_pattern import MAX_LENGTH, TopicPattern

MATCHES = [
    ("orders", "orders", "orders-2 Orders x-orders"),
    ("", "", "a"),
    ("orders.*", "orders orders-2 orders.dead", "my-orders"),
    ("^orders$", "orders", "orders1"),
    ("a|b.|", "a b1 ", "ab b"),
    ("(a|b)*c", "c abac", "abab"),
    ("a+?b{2,3}", "abb aabbb", "ab abbbb"),
    ("a{2}", "aa", "a aaa"),
    ("(?:a{2,})?", " aa aaaa", "a"),
    (r"t-\d+", "t-1 t-2024", "t- t-x"),
    (r"[a-c_\d]+", "a_1 c", "d"),
    ("[^.]+", "a-b", "a.b"),
    (r"a\.b", "a.b", "aXb"),
    (r"\w+\W\w+", "a-b a.b", "ab a_b"),
    ("(?i)ORDERS", "orders OrDeRs", "order"),
    ("(?i:A)b", "ab Ab", "aB"),
    ("(?i)[^a]", "b", "a A"),
    (r"\Aa\z", "a", "aa"),
    # where Python means something else, or nothing
    ("[[:alpha:]]+", "abc", "a1 : alph-"),
    ("[^[:digit:]_]+", "abc", "a1 _"),
    ("[[:alpha:][:digit:]-]+", "a1-b", "a.b"),
    (r"\Qa.b*\E+", "a.b* a.b**", "axb a.b"),
    (r"\Qa.b", "a.b", "axb"),
    ("(?P<x>a)b", "ab", "a"),
    ("(?<x>a)b", "ab", "a"),
    ("a{,2}", "a{,2}", "aa"),
    ("(?U)a+", "aaa", "b"),
    ("[]a]+", "a]", "b"),
    ("[[a]+", "[a", "b"),
    (r"\borders\b.*", "orders orders-2", "orders2"),
    (r"a\Bb", "ab", "a"),
    (r"(?s).*", "a", ""),
]


@pytest.mark.parametrize(("pattern", "yes", "no"), MATCHES)
def test_the_whole_name_matches(pattern: str, yes: str, no: str) -> None:
    compiled = TopicPattern(pattern)
    assert [name for name in yes.split(" ") if not compiled.matches(name)] == []
    assert [name for name in no.split(" ") if name and compiled.matches(name)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "(", "a)", "[a", "*", "a**+", r"(a)\1", "(?P<x>a)(?P=x)", "(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", "a++", "(?>a)", "a\\",
        r"\Z", "(?#x)a", "(?x)a", "(?a)a", "(?L)a", "[[:nothing:]]", r"\q", "a{3,2}", "[b-a]", r"\u0061", r"\N{DIGIT ONE}",
        "((a{1000}){1000}){1000}", "(" * 500 + ")" * 500 + "(", "a" * (MAX_LENGTH + 1), r"\pL",
    ],
)  # fmt: skip
def test_what_re2_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError) as caught:
        TopicPattern(pattern)
    assert str(caught.value)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)b", "(a?){60}b"])
def test_choices_do_not_multiply(pattern: str) -> None:
    started = time.process_time()
    assert not TopicPattern(pattern).matches("a" * 249)
    assert time.process_time() - started < 2


SIMPLE = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}"])).map(lambda one: f"(?:{one[0]}){one[1]}"),
    ),
    max_leaves=6,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SIMPLE, st.lists(st.text("ab1", max_size=6), min_size=1))
def test_it_agrees_with_python(pattern: str, names: list[str]) -> None:
    compiled = TopicPattern(pattern)
    for name in names:
        assert compiled.matches(name) is (re.fullmatch(pattern, name) is not None)
