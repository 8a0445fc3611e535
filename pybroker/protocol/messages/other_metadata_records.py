"""The records of `__cluster_metadata` that this broker neither reads nor writes: `pybroker log dump` prints them.

Source: metadata/src/main/resources/common/metadata/*.json of Kafka 3.3 to 4.3.
"""

from __future__ import annotations

from typing import Final

from pybroker.protocol.messages.metadata_records import MetadataRecordType
from pybroker.protocol.schema import Message, Struct, field
from pybroker.protocol.wire import Bool, Float64, Int8, Int16, Int32, Int64, UInt16, Uuid


class Endpoint(Struct):
    """An address of a broker or a controller."""

    name: str = field()
    host: str = field()
    port: UInt16 = field()
    security_protocol: Int16 = field()


class Feature(Struct):
    """The levels of a feature that a broker or a controller has."""

    name: str = field()
    min_supported_version: Int16 = field()
    max_supported_version: Int16 = field()


class RegisterBrokerRecord(Message, versions="0-4", flexible="0+"):
    """A broker process that has registered with the controller."""

    broker_id: Int32 = field()
    is_migrating_zk_broker: Bool = field("2+")
    incarnation_id: Uuid = field()
    broker_epoch: Int64 = field()
    end_points: list[Endpoint] = field()
    features: list[Feature] = field()
    rack: str | None = field()
    fenced: Bool = field(default=True)
    in_controlled_shutdown: Bool = field("1+")
    log_dirs: list[Uuid] = field("3+", tag=0)
    cordoned_log_dirs: list[Uuid] | None = field("4+", tag=1, default=None)


class UnregisterBrokerRecord(Message, versions="0", flexible="0+"):
    """A broker that does not belong to the cluster any more."""

    broker_id: Int32 = field()
    broker_epoch: Int64 = field()


class FenceBrokerRecord(Message, versions="0", flexible="0+"):
    """A broker that leads nothing until it is unfenced."""

    id: Int32 = field()
    epoch: Int64 = field()


class UnfenceBrokerRecord(Message, versions="0", flexible="0+"):
    """A broker that may lead again."""

    id: Int32 = field()
    epoch: Int64 = field()


class DelegationTokenRecord(Message, versions="0", flexible="0+"):
    """A delegation token. Times in ms."""

    owner: str = field()
    requester: str = field()
    renewers: list[str] = field()
    issue_timestamp: Int64 = field()
    max_timestamp: Int64 = field()
    expiration_timestamp: Int64 = field()
    token_id: str = field()


class RemoveDelegationTokenRecord(Message, versions="0", flexible="0+"):
    """A delegation token that does not exist any more."""

    token_id: str = field()


class UserScramCredentialRecord(Message, versions="0", flexible="0+"):
    """The numbers that a server keeps of a user's password."""

    name: str = field()
    mechanism: Int8 = field()
    salt: bytes = field()
    stored_key: bytes = field()
    server_key: bytes = field()
    iterations: Int32 = field()


class RemoveUserScramCredentialRecord(Message, versions="0", flexible="0+"):
    """A credential that does not exist any more."""

    name: str = field()
    mechanism: Int8 = field()


class QuotaEntity(Struct):
    """A part of the name of those for whom a quota is; None stands for the default."""

    entity_type: str = field()
    entity_name: str | None = field()


class ClientQuotaRecord(Message, versions="0", flexible="0+"):
    """A quota, or its removal."""

    entity: list[QuotaEntity] = field()
    key: str = field()
    value: Float64 = field()
    remove: Bool = field()


class BrokerRegistrationChangeRecord(Message, versions="0-3", flexible="0+"):
    """Changes of a broker's registration; 0 and None mean that the field did not change."""

    broker_id: Int32 = field()
    broker_epoch: Int64 = field()
    fenced: Int8 = field(tag=0)
    in_controlled_shutdown: Int8 = field("1+", tag=1)
    log_dirs: list[Uuid] = field("2+", tag=2)
    cordoned_log_dirs: list[Uuid] | None = field("3+", tag=3, default=None)


class AccessControlEntryRecord(Message, versions="0", flexible="0+"):
    """An entry of an access control list."""

    id: Uuid = field()
    resource_type: Int8 = field()
    resource_name: str = field()
    pattern_type: Int8 = field()
    principal: str = field()
    host: str = field()
    operation: Int8 = field()
    permission_type: Int8 = field()


class RemoveAccessControlEntryRecord(Message, versions="0", flexible="0+"):
    """An entry that does not exist any more."""

    id: Uuid = field()


class NoOpRecord(Message, versions="0", flexible="0+"):
    """The sign that the controller is alive."""


class ZkMigrationStateRecord(Message, versions="0", flexible="0+"):
    """How far the migration from ZooKeeper is."""

    zk_migration_state: Int8 = field()


class RegisterControllerRecord(Message, versions="0", flexible="0+"):
    """A controller process that has registered."""

    controller_id: Int32 = field()
    incarnation_id: Uuid = field()
    zk_migration_ready: Bool = field()
    end_points: list[Endpoint] = field()
    features: list[Feature] = field()


class ClearElrRecord(Message, versions="0", flexible="0+"):
    """The removal of the eligible leader replicas of a topic, or of all topics if it names none."""

    topic_name: str = field()


OTHER_METADATA_RECORDS: Final[dict[MetadataRecordType, type]] = {
    MetadataRecordType.REGISTER_BROKER: RegisterBrokerRecord,
    MetadataRecordType.UNREGISTER_BROKER: UnregisterBrokerRecord,
    MetadataRecordType.FENCE_BROKER: FenceBrokerRecord,
    MetadataRecordType.UNFENCE_BROKER: UnfenceBrokerRecord,
    MetadataRecordType.DELEGATION_TOKEN: DelegationTokenRecord,
    MetadataRecordType.USER_SCRAM_CREDENTIAL: UserScramCredentialRecord,
    MetadataRecordType.CLIENT_QUOTA: ClientQuotaRecord,
    MetadataRecordType.BROKER_REGISTRATION_CHANGE: BrokerRegistrationChangeRecord,
    MetadataRecordType.ACCESS_CONTROL_ENTRY: AccessControlEntryRecord,
    MetadataRecordType.REMOVE_ACCESS_CONTROL_ENTRY: RemoveAccessControlEntryRecord,
    MetadataRecordType.NO_OP: NoOpRecord,
    MetadataRecordType.ZK_MIGRATION_STATE: ZkMigrationStateRecord,
    MetadataRecordType.REMOVE_USER_SCRAM_CREDENTIAL: RemoveUserScramCredentialRecord,
    MetadataRecordType.REMOVE_DELEGATION_TOKEN: RemoveDelegationTokenRecord,
    MetadataRecordType.REGISTER_CONTROLLER: RegisterControllerRecord,
    MetadataRecordType.CLEAR_ELR: ClearElrRecord,
}
"""The message of each of these types of record."""
