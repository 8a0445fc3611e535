"""The values of KRaft's control records, in `__cluster_metadata` and in its snapshots.

The first int16 of a value is the version of its message, and a field of it as well.

Source: clients/src/main/resources/common/message/{LeaderChangeMessage, Snapshot*Record, KRaftVersionRecord, VotersRecord}.json.
"""

from __future__ import annotations

from pybroker.protocol.schema import Message, Struct, field
from pybroker.protocol.wire import Int16, Int32, Int64, UInt16, Uuid


class Voter(Struct):
    """A voter of the quorum."""

    voter_id: Int32 = field()
    voter_directory_id: Uuid = field("1+")


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    """The election of a leader."""

    version: Int16 = field()
    leader_id: Int32 = field()
    voters: list[Voter] = field()
    granting_voters: list[Voter] = field()


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    """The begin of a snapshot. The timestamp, in ms, is that of the last record that the snapshot contains."""

    version: Int16 = field()
    last_contained_log_timestamp: Int64 = field()


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    """The end of a whole snapshot."""

    version: Int16 = field()


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    """The version of the quorum's protocol from here on."""

    version: Int16 = field()
    k_raft_version: Int16 = field()


class VoterEndpoint(Struct):
    """An address of a voter."""

    name: str = field()
    host: str = field()
    port: UInt16 = field()


class KRaftVersionFeature(Struct):
    """The versions of the quorum's protocol that a voter has."""

    min_supported_version: Int16 = field()
    max_supported_version: Int16 = field()


class VoterDescription(Struct):
    """A voter with its addresses."""

    voter_id: Int32 = field()
    voter_directory_id: Uuid = field()
    endpoints: list[VoterEndpoint] = field()
    k_raft_version_feature: KRaftVersionFeature = field()


class VotersRecord(Message, versions="0", flexible="0+"):
    """The voters of the quorum from here on."""

    version: Int16 = field()
    voters: list[VoterDescription] = field()
