"""Regular expressions of RE2's language are matched in a time that grows with the text, not with the number of alternatives."""

from __future__ import annotations

import re
import sys
import time
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pybroker.coordinator.consumer.patterns.matching import MATCHED_MAX, match
from pybroker.coordinator.consumer.patterns.re2_syntax import PatternError
from pybroker.coordinator.consumer.patterns.topic_pattern import MAX_LENGTH, TopicPattern
from pybroker.metadata.image import ClusterImage, TopicImage, empty_image
from pybroker.model import BrokerId, TopicId
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.sharing.work import run_slice, run_through
from testing.turns import watched

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


@pytest.mark.judges_time
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


def calls_of(pattern: str, text: str) -> int:
    """Return the number of calls of functions that it takes to compile a pattern and to match a text with it."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        TopicPattern(pattern).matches(text)
    except PatternError:
        pass
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("more", ["", "a-c", r"\W", "-"])
@pytest.mark.parametrize("flags", ["", "(?i)"])
def test_a_visit_costs_the_same_with_a_large_set_of_letters(flags: str, more: str) -> None:
    """Check that no member of a set is looked at for each visit, or made for each repetition. A letter costs the parser calls."""
    rare = "".join(chr(0x4E00 + 2 * number) for number in range(400))
    small, large = (calls_of(f"{flags}([^{letters}{more}]?){{400}}", "Z" * 20) for letters in (rare[0], rare))
    assert large < small + 50 * len(rare)


@pytest.mark.parametrize("pattern", [f"(a{'()' * 2000}){{2000}}", f"(a|{'|' * 2000}){{2000}}"])
def test_parts_without_states_are_looked_at_a_bounded_number_of_times(pattern: str) -> None:
    with pytest.raises(PatternError, match="too large"):
        TopicPattern(pattern)


@pytest.mark.parametrize(("pattern", "name"), [("[+--z]", "z"), ("[+--9||&&~~]+", "+,-9|&~"), (r"[[a]+", "[a")])
def test_odd_sets_of_letters_bring_no_warnings(pattern: str, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert TopicPattern(pattern).matches(name)


def test_a_letter_of_several_forms_is_itself_only() -> None:
    assert TopicPattern("(?i)[a-z]*").matches("StraSSe")
    assert not TopicPattern("(?i)[a-z]*").matches("Stra\N{LATIN SMALL LETTER SHARP S}e")


def image_of(*names: str) -> ClusterImage:
    topics = [TopicImage(name=name, topic_id=TopicId(name.encode().ljust(16)), partitions=(), configs={}) for name in names]
    image, _ = empty_image(BrokerId(1)).changed(revision=1, topics=topics)
    return image


def matching(regex: str, image: ClusterImage, before: ClusterImage | None) -> frozenset[str]:
    """Return the topics of `image` that the expression matches, at once."""
    return run_through(match(regex, image, before))


HOSTILE = [
    "([a-z0-9._-]?){1200}", "(a?){1500}(b?){700}", "([a-z]?[0-9]?){1000}", "(.*a){1000}",
    "(([a-z]{0,40}[0-9]{0,40}){0,20}-?){0,2}",
    r"(\\b[a-z]?){1500}", "(a|b|c|d|e|f|g|h){600}",
]  # fmt: skip


@pytest.mark.judges_time
@pytest.mark.parametrize("pattern", [*HOSTILE, ".*orders.*", "(eu|us|a.*)-topic.*"])
def test_an_expression_holds_the_loop_for_a_slice_only(pattern: str) -> None:
    names = [f"{chr(97 + number % 26)}{number:04}-topic.of_a-team-{number * 7919 % 10007}" for number in range(10_000)]
    image, refused = image_of(*names), False
    with watched(limit_ms=60) as turns:  # three times the bound: each visit of a state may be slow on a busy machine
        work = match(pattern, image, None)
        is_running = True
        while is_running:
            try:
                is_running = not turns.run(run_slice, work)[0]
            except KafkaError as error:
                refused, is_running = error.code is ErrorCode.INVALID_REGULAR_EXPRESSION, False
    assert turns.long_texts() == []
    assert refused or matching(pattern, image, None) <= set(names)


def test_an_expression_that_people_write_is_matched_with_10_000_topics() -> None:
    names = [f"{team}.orders-{number}" for number in range(2_000) for team in ("eu", "us", "asia", "test", "internal")]
    image = image_of(*names, "__consumer_offsets")
    found = matching(r".*orders.*|payments-(eu|us)\.[a-z]+", image, None)
    assert found == frozenset(names)
    assert matching(r"(eu|us)\.orders-1\d*", image, None) == {
        name for name in names if re.fullmatch(r"(eu|us)\.orders-1\d*", name)
    }


def test_an_expression_is_matched_once_with_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    matches = TopicPattern.matches

    def noted(pattern: TopicPattern, text: str) -> bool:
        seen.append(text)
        return matches(pattern, text)

    monkeypatch.setattr(TopicPattern, "matches", noted)
    first, second = image_of("a1", "a2", "b"), image_of("a2", "a3", "b", "c")
    assert matching("a.", first, None) == {"a1", "a2"}
    assert matching("a.", first, None) == {"a1", "a2"}
    assert sorted(seen) == ["a1", "a2", "b"]
    seen.clear()
    assert matching("a.", second, first) == {"a2", "a3"}
    assert sorted(seen) == ["a3", "c"]
    assert matching("b", second, first) == {"b"}, "it is new"


@pytest.mark.parametrize("pattern", ["(a?){1500}(b?){700}", "(", "a++"])
def test_an_expression_that_is_refused_is_tried_once_for_an_image(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    compile_pattern = TopicPattern.__init__

    def noted(compiled: TopicPattern, text: str) -> None:
        tried.append(text)
        compile_pattern(compiled, text)

    monkeypatch.setattr(TopicPattern, "__init__", noted)
    image, texts = image_of("a" * 200, "b"), set()
    for _ in range(3):
        with pytest.raises(KafkaError) as caught:
            matching(pattern, image, None)
        assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
        texts.add(caught.value.message)
    assert (tried, len(texts)) == ([pattern], 1)


def test_an_expression_that_is_too_long_is_not_kept() -> None:
    image, pattern = image_of("a"), "a" * (MAX_LENGTH + 1)
    with pytest.raises(KafkaError):
        matching(pattern, image, None)
    assert not any(image.derived.values())


def test_an_image_remembers_a_bounded_number_of_expressions() -> None:
    image = image_of("a")
    for number in range(MATCHED_MAX + 10):
        matching(f"a{number}", image, None)
    assert max(map(len, image.derived.values())) <= MATCHED_MAX
