"""The broker's configuration: one typed attribute per row of the table.

pydantic-settings joins the sources and checks the types. The table's rows turn texts into values, and also hold the checks. The
class body repeats only names and types, for mypy and for readers; a test compares it with the table.

Each property is a plain required field, which keeps pydantic's schema cheap: about 10 ms for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pydantic import model_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from pybroker.config.checks import check_together
from pybroker.config.http_listeners import HttpAddress, parse_admin, parse_metrics
from pybroker.config.listeners import (
    Endpoint,
    Listeners,
    parse_connection_overrides,
    parse_outside,
    resolve_listeners,
)
from pybroker.config.setting import ConfigError, Value
from pybroker.config.table import BROKER_SETTINGS
from pybroker.model import BrokerId  # noqa: TC001  pydantic reads the types of the attributes

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_DEFAULTS: Final[dict[str, Value]] = {setting.attribute: setting.default for setting in BROKER_SETTINGS.values()}


class Layer(PydanticBaseSettingsSource):
    """A source for pydantic-settings, of values by attribute that are known already."""

    def __init__(self, settings_cls: type[BaseSettings], values: Mapping[str, Value]) -> None:
        super().__init__(settings_cls)
        self._values = values

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        """Return a single value, which pydantic asks for."""
        return self._values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return all values."""
        return dict(self._values)


class DefaultsLayer(Layer):
    """The table's defaults, of which two depend on the values in the stronger sources."""

    def __call__(self) -> dict[str, Any]:
        """Return the defaults, given the values of the stronger sources in `current_state`."""
        values: dict[str, Any] = dict(self._values)
        given = {**values, **self.current_state}
        values["log_dirs"] = tuple(part.strip() for part in given["log_dir"].split(","))
        if given["broker_id"] >= 0:
            values["node_id"] = given["broker_id"]
        return values


class BrokerConfig(BaseSettings):
    """The configuration of a broker; immutable. `BrokerConfig()` has the defaults, and `load` reads all sources.

    Keyword arguments are attributes with values of their types. Where only the older names `broker_id` and `log_dir` are set,
    `node_id` and `log_dirs` get their values from them. Read the newer names.

    Raises ConfigError for a value that its row's check refuses and for values that contradict each other.
    """

    model_config = SettingsConfigDict(frozen=True, extra="forbid")

    origins: dict[str, str]
    """The source of each value that is not a default, by the property's name in Kafka."""

    unread: dict[str, str]
    """The text of each property that was set and that no part of the broker reads, by its name. Some are passwords."""

    advertised_listeners: str | None
    allow_everyone_if_no_acl_found: bool
    alter_config_policy_class_name: str | None
    authorizer_class_name: str
    auto_create_topics_enable: bool
    auto_leader_rebalance_enable: bool
    background_threads: int
    broker_heartbeat_interval_ms: int
    broker_id: BrokerId
    broker_rack: str | None
    broker_session_timeout_ms: int
    cluster_id: str | None
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    connection_failed_authentication_delay_ms: int
    connections_max_idle_ms: int
    connections_max_reauth_ms: int
    controlled_shutdown_enable: bool
    controlled_shutdown_max_retries: int
    controlled_shutdown_retry_backoff_ms: int
    controller_listener_names: tuple[str, ...] | None
    controller_quorum_bootstrap_servers: tuple[str, ...]
    controller_quorum_voters: tuple[str, ...]
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    create_topic_policy_class_name: str | None
    default_replication_factor: int
    delegation_token_expiry_check_interval_ms: int
    delegation_token_expiry_time_ms: int
    delegation_token_master_key: str | None
    delegation_token_max_lifetime_ms: int
    delegation_token_secret_key: str | None
    delete_records_purgatory_purge_interval_requests: int
    delete_topic_enable: bool
    fetch_max_bytes: int
    fetch_purgatory_purge_interval_requests: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_session_timeout_ms: int
    group_coordinator_append_linger_ms: int
    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_coordinator_threads: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    inter_broker_listener_name: str | None
    leader_imbalance_check_interval_seconds: int
    leader_imbalance_per_broker_percentage: int
    listener_security_protocol_map: str
    listeners: str
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_delete_retention_ms: int
    log_cleaner_enable: bool
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_max_compaction_lag_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_threads: int
    log_cleanup_policy: tuple[str, ...]
    log_dir: str
    log_dir_failure_timeout_ms: int
    log_dirs: tuple[str, ...]
    log_flush_interval_messages: int
    log_flush_interval_ms: int | None
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_index_interval_bytes: int
    log_index_size_max_bytes: int
    log_initial_task_delay_ms: int
    log_local_retention_bytes: int
    log_local_retention_ms: int
    log_message_downconversion_enable: bool
    log_message_format_version: str
    log_message_timestamp_after_max_ms: int
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_difference_max_ms: int
    log_message_timestamp_type: str
    log_preallocate: bool
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_retention_granularity: str
    log_retention_hours: int
    log_retention_minutes: int | None
    log_retention_ms: int | None
    log_roll_hours: int
    log_roll_jitter_hours: int
    log_roll_jitter_ms: int | None
    log_roll_ms: int | None
    log_segment_bytes: int
    log_segment_delete_delay_ms: int
    max_connection_creation_rate: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: str
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    message_max_bytes: int
    metadata_memory_set_logs_aside: bool
    metadata_store: str
    metadata_store_password: str | None
    metadata_store_password_file: str | None
    metadata_store_ssl_ca_file: str | None
    metadata_store_ssl_certificate_file: str | None
    metadata_store_ssl_key_file: str | None
    metadata_store_user: str | None
    metrics_listener: str
    min_insync_replicas: int
    node_id: BrokerId
    num_io_threads: int
    num_network_threads: int
    num_partitions: int
    num_recovery_threads_per_data_dir: int
    num_replica_alter_log_dirs_threads: int | None
    num_replica_fetchers: int
    offset_metadata_max_bytes: int
    offsets_commit_required_acks: int
    offsets_commit_timeout_ms: int
    offsets_load_buffer_size: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_compression_codec: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    process_roles: tuple[str, ...]
    producer_id_expiration_check_interval_ms: int
    producer_id_expiration_ms: int
    producer_purgatory_purge_interval_requests: int
    pybroker_admin_listener: str
    pybroker_admin_requests: int
    pybroker_admin_token: str | None
    pybroker_advertised_by_peer: bool
    pybroker_advertised_outside: str | None
    pybroker_as_version: str | None
    pybroker_down_conversion_chunk_bytes: int
    pybroker_down_conversion_eager: bool
    pybroker_down_conversion_padding: str
    pybroker_fetch_session_cache_partitions: int
    pybroker_first_request_timeout_ms: int
    pybroker_metrics_groups: str
    pybroker_metrics_internal_topics: bool
    pybroker_faults_file: str | None
    pybroker_metrics_token: str | None
    pybroker_metrics_topics: str
    pybroker_produce_inflation_max: int
    pybroker_replication_factor_accept: str
    pybroker_request_elements_max: int
    pybroker_request_progress_timeout_ms: int
    pybroker_scram_users: str | None
    pybroker_unsent_response_bytes_max: int
    pybroker_virtual_time: bool
    queued_max_request_bytes: int
    queued_max_requests: int
    quota_window_num: int
    quota_window_size_seconds: int
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_lag_time_max_ms: int
    replica_selector_class: str | None
    replica_socket_receive_buffer_bytes: int
    replica_socket_timeout_ms: int
    request_timeout_ms: int
    sasl_enabled_mechanisms: tuple[str, ...]
    sasl_mechanism_inter_broker_protocol: str
    sasl_oauthbearer_clock_skew_seconds: int
    sasl_oauthbearer_expected_audience: tuple[str, ...] | None
    sasl_oauthbearer_expected_issuer: str | None
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int
    sasl_oauthbearer_jwks_endpoint_url: str | None
    sasl_oauthbearer_scope_claim_name: str
    sasl_oauthbearer_sub_claim_name: str
    sasl_server_callback_handler_class: str | None
    sasl_server_max_receive_size: int
    security_inter_broker_protocol: str
    socket_listen_backlog_size: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    ssl_cipher_suites: tuple[str, ...]
    ssl_client_auth: str
    ssl_enabled_protocols: tuple[str, ...]
    ssl_endpoint_identification_algorithm: str
    ssl_key_password: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_keystore_key: str | None
    ssl_keystore_location: str | None
    ssl_keystore_password: str | None
    ssl_keystore_type: str
    ssl_principal_mapping_rules: str
    ssl_protocol: str
    ssl_truststore_certificates: str | None
    ssl_truststore_location: str | None
    ssl_truststore_password: str | None
    ssl_truststore_type: str
    super_users: str
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_max_timeout_ms: int
    transaction_partition_verification_enable: bool
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_load_buffer_size: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    transactional_id_expiration_ms: int
    unclean_leader_election_enable: bool

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # Kafka's names, not pydantic's: see `load`
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources, strongest first: the arguments, the mappings in the argument `layers`, the defaults."""
        assert isinstance(init_settings, InitSettingsSource)
        layers: tuple[Mapping[str, Value], ...] = init_settings.init_kwargs.pop("layers", ())
        defaults = DefaultsLayer(settings_cls, {**_DEFAULTS, "origins": {}, "unread": {}})  # type: ignore[dict-item]  # not a property
        return (init_settings, *(Layer(settings_cls, layer) for layer in layers), defaults)

    @model_validator(mode="after")
    def _check(self) -> BrokerConfig:
        for setting in BROKER_SETTINGS.values():
            value = getattr(self, setting.attribute)
            if setting.check is not None and value is not None and not setting.check.accepts(value):
                raise ConfigError(setting.name, setting.shown(setting.format(value)), f"must be {setting.check.text}")
        check_together(self)
        return self

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The addresses on which the broker listens."""
        return self._listeners().bound

    @property
    def advertised_endpoints(self) -> tuple[Endpoint, ...]:
        """The addresses for clients. An empty host is the machine's name; port 0 is the port that the listener has got."""
        return self._listeners().advertised

    @property
    def unadvertised_listeners(self) -> frozenset[str]:
        """The names of the listeners without an advertised address: what their clients get depends on where the clients are."""
        if self.advertised_listeners is None:
            return frozenset(endpoint.listener_name for endpoint in self.endpoints)
        fixed = {endpoint.listener_name for endpoint in self.advertised_endpoints if endpoint.host}
        return frozenset(endpoint.listener_name for endpoint in self.endpoints) - fixed

    @property
    def outside_address(self) -> tuple[str, int] | None:
        """The host and port of pybroker.advertised.outside; port 0 is the listener's port. None when the property is not set."""
        text = self.pybroker_advertised_outside
        return None if text is None else parse_outside("pybroker.advertised.outside", text)

    @property
    def metrics_address(self) -> HttpAddress | None:
        """Where metrics.listener is; None when there is no page of metrics."""
        return parse_metrics(self.metrics_listener)

    @property
    def admin_address(self) -> HttpAddress | None:
        """Where pybroker.admin.listener is; None when there is no API."""
        return parse_admin(self.pybroker_admin_listener, has_token=self.pybroker_admin_token is not None)

    @property
    def connection_limits(self) -> dict[str, int]:
        """The limits of max.connections.per.ip.overrides by host (`hosts` has them by address). Raises ConfigError."""
        return parse_connection_overrides(self.max_connections_per_ip_overrides)

    @property
    def broker_listener_name(self) -> str:
        """The name of the listener for other brokers, where it is apart from those for clients."""
        return (self.inter_broker_listener_name or self.security_inter_broker_protocol).upper()

    @property
    def inter_broker(self) -> tuple[str, str] | None:
        """The property that names the listener for other brokers, by its name or its protocol, and the name; None without one."""
        if self.inter_broker_listener_name is not None:
            return "inter.broker.listener.name", self.inter_broker_listener_name
        key = "security.inter.broker.protocol"
        return (key, self.security_inter_broker_protocol) if key in self.origins else None

    @property
    def is_metadata_shared(self) -> bool:
        """Whether other brokers may use the metadata store."""
        return not self.metadata_store.startswith(("sqlite:", "memory:"))

    @property
    def has_consumer_groups(self) -> bool:
        """Whether the broker serves groups of the consumer protocol."""
        protocols = self.group_coordinator_rebalance_protocols
        return "consumer" in protocols or "consumer" in {protocol.lower() for protocol in protocols}

    @property
    def dropped_listeners(self) -> tuple[str, ...]:
        """The names of the listeners that were left out because they are for Kafka's controller."""
        return self._listeners().dropped

    @property
    def is_broker(self) -> bool:
        """Whether the process is a broker, and not only a controller."""
        return not self.process_roles or "broker" in self.process_roles

    def _listeners(self) -> Listeners:
        if not self.is_broker:
            return Listeners(bound=(), advertised=(), dropped=())
        return resolve_listeners(
            listeners=self.listeners,
            advertised=self.advertised_listeners,
            protocol_map=self.listener_security_protocol_map,
            controller_names=self.controller_listener_names or (),
            inter_broker=self.inter_broker,
        )
