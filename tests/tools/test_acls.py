"""kafka-acls without a broker: its command lines, the requests, and the text that it prints."""

from __future__ import annotations

from typing import Any, Self

import pytest

from pybroker.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from pybroker.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from pybroker.protocol.messages.describe_acls import AclDescription, DescribeAclsResource, DescribeAclsResponse
from pybroker.tools import acls
from pybroker.tools.errors import CommandError

AT = ["--bootstrap-server", "127.0.0.1:1"]


class FakeAdmin:
    """Responds to each request, and keeps it."""

    asked: list[Any] = []  # noqa: RUF012  emptied by each test

    def __init__(self, _: object) -> None:
        self.asked.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, request: Any, version: int) -> Any:
        assert version in (2, 3)
        self.asked.append(request)
        if isinstance(request, CreateAclsRequest):
            return CreateAclsResponse(results=[AclCreationResult(error_message=None) for _ in request.creations])
        if isinstance(request, DeleteAclsRequest):
            return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(error_message=None) for _ in request.filters])
        rules = [AclDescription(principal=f"User:{name}", host="*", operation=3, permission_type=3) for name in ("al", "bob")]
        return DescribeAclsResponse(resources=[DescribeAclsResource(resource_type=2, resource_name="t", acls=rules)])


def run(monkeypatch: pytest.MonkeyPatch, words: str) -> list[Any]:
    monkeypatch.setattr(acls, "Admin", FakeAdmin)
    assert acls.main("kafka-acls", [*AT, *words.split()]) == 0
    return FakeAdmin.asked


def test_acls_are_added_and_printed_as_kafka_prints_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (request,) = run(monkeypatch, "--add --allow-principal User:bob --operation Read --operation AlterConfigs --topic t")
    assert [(one.principal, one.host, one.operation, one.permission_type) for one in request.creations] == [
        ("User:bob", "*", 3, 3),
        ("User:bob", "*", 11, 3),
    ]
    assert capsys.readouterr().out == (
        "Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`: \n"
        " \t(principal=User:bob, host=*, operation=READ, permissionType=ALLOW)\n"
        "\t(principal=User:bob, host=*, operation=ALTER_CONFIGS, permissionType=ALLOW) \n\n"
    )


def test_what_a_producer_and_a_consumer_need(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = run(monkeypatch, "--add --allow-principal User:a --producer --idempotent --consumer --topic t --group g")
    found = {(one.resource_type, one.resource_name): one.operation for request in asked for one in request.creations}
    operations = [sorted(one.operation for one in request.creations) for request in asked]
    assert set(found) == {(2, "t"), (4, "kafka-cluster"), (3, "g")}
    assert operations == [[3, 4, 5, 8], [12], [3]]


def test_acls_are_removed_with_and_without_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    (request,) = run(monkeypatch, "--remove --topic t --resource-pattern-type match --force")
    (one,) = request.filters
    assert (one.pattern_type_filter, one.principal_filter, one.operation, one.permission_type) == (2, None, 1, 1)
    monkeypatch.setattr("builtins.input", lambda _: "n")
    assert run(monkeypatch, "--remove --topic t") == []


def test_acls_of_a_principal_are_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, "--list --principal User:al")
    assert capsys.readouterr().out == (
        "ACLs for principal `User:al`\n"
        "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`: \n"
        " \t(principal=User:al, host=*, operation=READ, permissionType=ALLOW) \n\n"
    )


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--topic t", "Command must include exactly one action: --list, --add, --remove. "),
        ("--add --topic t", "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."),
        ("--add --allow-principal User:a", acls.NO_RESOURCE),
        ("--add --allow-principal a --topic t", "expected a string in format principalType:principalName but got a"),
        ("--add --allow-principal User:a --producer", "With --producer you must specify a --topic"),
        ("--list --producer --topic t", 'Option "[list]" can\'t be used with option "[producer]"'),
        ("--remove --principal User:a", "The --principal option is only available if --list is set"),
        ("--list --resource-pattern-type odd", "Unknown resource-pattern-type: odd"),
        (
            "--add --allow-principal User:a --topic t --resource-pattern-type match",
            "A '--resource-pattern-type' value of 'MATCH' is not valid when adding acls.",
        ),
    ],
)
def test_command_lines_that_mean_nothing(monkeypatch: pytest.MonkeyPatch, words: str, line: str) -> None:
    monkeypatch.setattr(acls, "Admin", FakeAdmin)
    with pytest.raises(CommandError) as caught:
        acls.main("kafka-acls", [*AT, *words.split()])
    assert str(caught.value) == line


OF_TOPICS = "TOPIC only supports operations Read, All, AlterConfigs, DescribeConfigs, Delete, Write, Alter, Create, Describe"
OF_CLUSTERS = (
    "CLUSTER only supports operations All, AlterConfigs, DescribeConfigs, IdempotentWrite, Alter, ClusterAction, Create, Describe"
)


@pytest.mark.parametrize("action", ["--add", "--remove --force"])
@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--operation Foo --topic t", OF_TOPICS),
        ("--operation Unknown --topic t", OF_TOPICS),
        ("--operation describe_configs --topic t", OF_TOPICS),
        ("--operation CreateTokens --group g --topic t", OF_TOPICS),
        ("--operation Create --group g --topic t", "GROUP only supports operations Delete, Describe, Read, All"),
        ("--operation Read --operation Create --group g", "GROUP only supports operations Delete, Describe, Read, All"),
        ("--operation Write --operation Delete --group g --cluster", OF_CLUSTERS),
        ("--operation ClusterAction --transactional-id i", "TRANSACTIONAL_ID only supports operations Write, Describe, All"),
        ("--operation Alter --delegation-token d", "DELEGATION_TOKEN only supports operations Describe, All"),
        ("--operation Alter --user-principal User:b", "USER only supports operations CreateTokens, DescribeTokens, All"),
    ],
)
def test_operations_that_a_type_of_resources_does_not_have(action: str, words: str, line: str) -> None:
    """Kafka's tool prints these lines before it connects to a broker, and so do we: nothing listens at this address."""
    with pytest.raises(CommandError) as caught:
        acls.main("kafka-acls", [*AT, *f"{action} --allow-principal User:a {words}".split()])
    assert str(caught.value) == f"ResourceType {line}"


def test_the_operation_any_is_for_filters(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--add --allow-principal User:a --operation Create --operation Any --group g"
    assert acls.main("kafka-acls", [*AT, *words.split()]) == 1
    assert capsys.readouterr().out == "Error while executing ACL command: operation must not be ANY\n"
    (request,) = run(monkeypatch, "--remove --force --operation Any --topic t")
    assert len(request.filters) == 1


def test_names_of_operations_have_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    (request,) = run(monkeypatch, "--add --allow-principal User:a --operation describeconfigs --operation READ --topic t")
    assert [one.operation for one in request.creations] == [10, 3]
