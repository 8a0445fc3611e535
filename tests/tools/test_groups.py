"""kafka-consumer-groups without a broker: command lines, times, columns."""

from __future__ import annotations

import struct

import pytest

from pybroker.protocol.member_assignment import assigned
from pybroker.tools import groups
from pybroker.tools.errors import CommandError
from pybroker.tools.groups_admin import Group, Member, Partition, by_topic
from pybroker.tools.groups_describe import (
    Row,
    assignment_text,
    is_shown,
    print_members,
    print_offsets,
    print_state,
)
from pybroker.tools.groups_reset import ResetError, chosen, duration_ms, milliseconds
from pybroker.tools.options import parse

AT = ["--bootstrap-server", "localhost:1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--group g", "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets"),
        ("--describe", "Option [describe] takes one of these options: [group], [all-groups]"),
        ("--describe --group g --members --state",
         "Option [describe] takes at most one of these options: [members], [offsets], [state]"),
        ("--describe --group g --state Stable", "Option [describe] does not take a value for [state]"),
        ("--delete --group g --topic t", "The consumer does not support topic-specific offset deletion from a consumer group."),
        ("--list --members", "Option(s) [members] are unavailable given other options on the command line"),
        ("--describe --group g --all-groups", 'Option "[group]" can\'t be used with option "[all-groups]"'),
        ("--reset-offsets --group g --dry-run --execute", "Option [reset-offsets] only accepts one of [execute] and [dry-run]"),
        ("--reset-offsets --group g --execute --to-latest --shift-by 1",
         'Option "[shift-by]" can\'t be used with option "[to-latest]"'),
        ("--delete-offsets --group g", "Option [delete-offsets] takes the following options: [group], [topic]"),
    ],
)  # fmt: skip
def test_wrong_command_lines(words: str, message: str) -> None:
    with pytest.raises(CommandError) as raised:
        groups.main("kafka-consumer-groups", [*AT, *words.split()])
    assert (str(raised.value), raised.value.code) == (message, 1)


def test_states_and_types_in_any_case() -> None:
    options = parse("kafka-consumer-groups", groups.KINDS, ["--list", "--state", "stable, EMPTY", "--type"])
    assert groups.states(options) == ["Stable", "Empty"]
    assert groups.types(options) == []
    with pytest.raises(CommandError, match=r"^Invalid types list 'odd'. Valid types are: Consumer, Classic$"):
        groups.types(parse("kafka-consumer-groups", groups.KINDS, ["--list", "--type", "odd"]))


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:01.500", 1500),
        ("1970-01-01T00:00:01.500Z", 1500),
        ("1970-01-01T01:00:00.000+01:00", 0),
        ("2024-01-03T00:00:00.000", 1704240000000),
    ],
)
def test_times(text: str, ms: int) -> None:
    assert milliseconds(text) == ms


@pytest.mark.parametrize("text", ["soon", "2024-01-03", "2024-13-03T00:00:00.000"])
def test_wrong_times(text: str) -> None:
    with pytest.raises(ResetError, match=r"^java\.text\.ParseException: "):
        milliseconds(text)


@pytest.mark.parametrize(("text", "ms"), [("P1D", 86400000), ("PT1H30M", 5400000), ("P2DT0.5S", 172800500), ("-PT1S", -1000)])
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["soon", "P", "PT", "P1DT", "1D"])
def test_wrong_durations(text: str) -> None:
    with pytest.raises(ResetError, match="Text cannot be parsed to a Duration"):
        duration_ms(text)


def test_chosen_partitions() -> None:
    def all_of(topic: str) -> list[Partition]:
        return [Partition(topic, 0), Partition(topic, 1)]

    assert chosen("t", all_of) == [Partition("t", 0), Partition("t", 1)]
    assert chosen("t:2,5", all_of) == [Partition("t", 2), Partition("t", 5)]
    with pytest.raises(CommandError, match="Invalid topic arg 't:', expected topic name and partitions"):
        chosen("t:", all_of)
    with pytest.raises(CommandError, match="Invalid partition 'x' specified in topic arg 't:x''"):
        chosen("t:x", all_of)


def test_partitions_by_topic() -> None:
    assert by_topic([Partition("b", 1), Partition("a", 2), Partition("b", 0)]) == {"a": [2], "b": [0, 1]}


def test_assignments_of_members() -> None:
    of_version = struct.pack(">h", 1) + struct.pack(">ih", 1, 1) + b"t" + struct.pack(">iii", 2, 0, 3) + struct.pack(">i", -1)
    assert assigned(of_version) == [("t", 0), ("t", 3)]
    assert assigned(b"") == []
    assert assigned(b"\0\1 of some other kind") == []
    assert assignment_text([Partition("t", 0), Partition("t", 3), Partition("s", 1)]) == "(0,3), (1)"
    assert assignment_text([]) == "-"


MEMBER = Member("me-1", "", "me", "/127.0.0.1", [Partition("t", 0)])


def test_offsets_have_a_line_end_before_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    print_offsets([Row("g", "t", "0", "1", "2", "1", "a-member-with-a-long-id", "/127.0.0.1", "me")])
    assert capsys.readouterr().out == (
        "\nGROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID             "
        "HOST            CLIENT-ID"
        "\ng               t               0          1               2               1               a-member-with-a-long-id "
        "/127.0.0.1      me"
    )


def test_members(capsys: pytest.CaptureFixture[str]) -> None:
    print_members(Group("g", "Stable", "range", [MEMBER]), is_verbose=True)
    assert capsys.readouterr().out == (
        "\nGROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     ASSIGNMENT\n"
        "g               me-1            /127.0.0.1      me              1               (0)\n"
    )
    print_members(Group("g", "Empty", "", []), is_verbose=False)
    assert capsys.readouterr().out == "\nGROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     \n"


def test_a_static_member_has_its_column(capsys: pytest.CaptureFixture[str]) -> None:
    print_members(Group("g", "Stable", "range", [MEMBER._replace(instance_id="one")]), is_verbose=False)
    assert "GROUP-INSTANCE-ID" in capsys.readouterr().out


def test_states(capsys: pytest.CaptureFixture[str]) -> None:
    print_state(Group("g", "Stable", "range", [MEMBER]), "localhost:9092  (1)")
    assert capsys.readouterr().out == (
        "\nGROUP                     COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE           #MEMBERS"
        "\ng                         localhost:9092  (1)       range                Stable          1\n"
    )


@pytest.mark.parametrize(
    ("state", "count", "out", "err", "expected"),
    [
        ("Stable", 1, "", "", True),
        ("Stable", 0, "", "", False),
        ("Dead", 1, "\nError: Consumer group 'g' does not exist.\n", "", False),
        ("Empty", 1, "", "\nConsumer group 'g' has no active members.\n", True),
        ("PreparingRebalance", 1, "", "\nWarning: Consumer group 'g' is rebalancing.\n", True),
    ],
)
def test_what_is_special_about_a_state(
    state: str, count: int, out: str, err: str, expected: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert is_shown(Group("g", state, "", []), count) == expected
    assert tuple(capsys.readouterr()) == (out, err)
