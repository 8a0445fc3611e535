"""Errors in the words of Kafka's Java client, which scripts look for: the exception's class, and its default message.

Source: `org.apache.kafka.common.protocol.Errors` of Kafka 3.9.2.
"""

from __future__ import annotations

PACKAGE = "org.apache.kafka.common.errors"

_KNOWN = {
    3: ("UnknownTopicOrPartitionException", "This server does not host this topic-partition."),
    7: ("TimeoutException", "The request timed out."),
    15: ("CoordinatorNotAvailableException", "The coordinator is not available."),
    16: ("NotCoordinatorException", "This is not the correct coordinator."),
    17: ("InvalidTopicException", "The request attempted to perform an operation on an invalid topic."),
    24: ("InvalidGroupIdException", "The configured groupId is invalid."),
    25: ("UnknownMemberIdException", "The coordinator is not aware of this member."),
    29: ("TopicAuthorizationException", "Topic authorization failed."),
    30: ("GroupAuthorizationException", "Group authorization failed."),
    31: ("ClusterAuthorizationException", "Cluster authorization failed."),
    36: ("TopicExistsException", "Topic with this name already exists."),
    37: ("InvalidPartitionsException", "Number of partitions is below 1."),
    38: ("InvalidReplicationFactorException", "Replication factor is below 1 or larger than the number of available brokers."),
    39: ("InvalidReplicaAssignmentException", "Replica assignment is invalid."),
    40: ("InvalidConfigurationException", "Configuration is invalid."),
    44: ("PolicyViolationException", "Request parameters do not satisfy the configured policy."),
    53: ("TransactionalIdAuthorizationException", "Transactional Id authorization failed."),
    61: ("DelegationTokenDisabledException", "Delegation Token feature is not enabled."),
    62: ("DelegationTokenNotFoundException", "Delegation Token is not found on server."),
    63: ("DelegationTokenOwnerMismatchException", "Specified Principal is not valid Owner/Renewer."),
    64: (
        "UnsupportedByAuthenticationException",
        "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation token authenticated channels.",  # noqa: E501  Kafka's sentence
    ),
    65: ("DelegationTokenAuthorizationException", "Delegation Token authorization failed."),
    66: ("DelegationTokenExpiredException", "Delegation Token is expired."),
    67: ("InvalidPrincipalTypeException", "Supplied principalType is not supported."),
    68: ("GroupNotEmptyException", "The group is not empty."),
    69: ("GroupIdNotFoundException", "The group id does not exist."),
    73: ("TopicDeletionDisabledException", "Topic deletion is disabled."),
    86: (
        "GroupSubscribedToTopicException",
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it.",
    ),
}
TOPIC_ALREADY_EXISTS, GROUP_ID_NOT_FOUND = 36, 69


def exception_of(code: int) -> str:
    """Return the class, with its package."""
    name, _ = _KNOWN.get(code) or (_derived(code)[0], "")
    return f"{PACKAGE}.{name}"


def sentence_of(code: int) -> str:
    """Return the message that the class has by default."""
    return (_KNOWN.get(code) or _derived(code))[1]


def _derived(code: int) -> tuple[str, str]:
    from pybroker.protocol.error_codes import ErrorCode

    error = next((one for one in ErrorCode if one == code), None)
    if error is None:
        return "UnknownServerException", f"The broker responds with the error {code}, which this tool does not know."
    return f"{error.name.title().replace('_', '')}Exception", error.message
