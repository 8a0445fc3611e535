"""Registers the numbers of the broker's objects for export, under their names: the metrics' part of the composition.

The owners count in plain attributes; the callbacks registered here read them when metrics are scraped, in the exporter's thread.
Dictionaries are copied as a whole before they are walked, because the loop may change them meanwhile.

Source: the MBeans of Kafka that the usual rules of the JMX exporter turn into these names.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

from pybroker import native
from pybroker.broker import standard_streams
from pybroker.log.files.open_files import OPEN_FILES
from pybroker.log.retention.record_retention import known_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pybroker.broker.free_memory import FreeMemory
    from pybroker.clock import Clock
    from pybroker.coordinator.transaction.listing import OpenTransactions
    from pybroker.coordinator.transaction.service import TransactionCoordinator
    from pybroker.log.cleaner.cleaner import LogCleaner
    from pybroker.log.log import Log
    from pybroker.log.manager.manager import LogManager
    from pybroker.metadata.control import ClusterControl
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.image import ClusterImage
    from pybroker.metrics.broker_metrics import BrokerMetrics, Number
    from pybroker.model import BrokerId, TopicPartition
    from pybroker.network.counters import ListenerCounters
    from pybroker.network.server import SocketServer
    from pybroker.purgatory.purgatory import Purgatory
    from pybroker.replication.delayed_produce import ProducePurgatory
    from pybroker.replication.fetch_session import FetchSessionCache
    from pybroker.replication.partition import Partition
    from pybroker.replication.replica_manager import ReplicaManager
    from pybroker.sharing.turns.watchdog import Watchdog

_NS_PER_S: Final = 1_000_000_000
_MS_PER_S: Final = 1_000
LATE_MS: Final = 5 * 60 * 1_000
"""The time after the longest timeout in which the coordinator should have aborted a transaction (KIP-664)."""


def register_native_parts(metrics: BrokerMetrics) -> None:
    """Register which modules run natively: it never changes while the broker runs."""
    found: dict[tuple[str, ...], int] = {(part,): int(is_native) for part, is_native in native.parts().items()}
    metrics.labelled_gauge(
        "pybroker_native_part", "Whether a part of the broker is native (1) or pure Python (0)", ("part",), found.copy
    )


def register_log(metrics: BrokerMetrics) -> None:
    """Register the lines of the log that standard error did not take."""
    metrics.counter(
        "pybroker_log_lines_dropped_total",
        "Lines of the log that were dropped, because standard error did not take them",
        standard_streams.lines_dropped,
    )


def register_network(metrics: BrokerMetrics, server: SocketServer) -> None:
    """Register the memory pool's three sensors (KIP-72), the queue, and each listener's counters."""
    pool, admission = server.memory_pool, server.admission
    prefix = "kafka_network_socketserver"
    metrics.gauge(
        f"{prefix}_memorypoolavgdepletedpercent",
        "Share (0 to 1) of the time in which a request was not read for lack of memory",
        pool.average_depleted_percent,
    )
    metrics.gauge(f"{prefix}_memorypoolavailable", "Bytes that the request memory pool has left", lambda: pool.available)
    metrics.gauge(f"{prefix}_memorypoolused", "Bytes of requests that are allocated", lambda: pool.used)
    metrics.counter(
        f"{prefix}_memorypooldepletedtime_ms_total", "Time without request memory, in ms", lambda: pool.depleted_ms_total
    )
    metrics.gauge("kafka_network_requestchannel_requestqueuesize", "Requests in work", lambda: admission.queued_requests)
    metrics.gauge("pybroker_connections_waiting_for_memory", "Connections that wait for memory", lambda: admission.waiting)

    metrics.gauge(
        "pybroker_unsent_response_bytes",
        "Bytes of responses that wait because their clients do not take them",
        lambda: server.strangers.unsent_bytes,
    )
    metrics.counter(
        "pybroker_strangers_closed_total",
        "Connections that were closed because they sent no request in time, did not continue with one, or took no response",
        lambda: server.strangers.closed,
    )
    metrics.counter(
        "pybroker_accept_shortages_total",
        "Times that no descriptor was left for a connection that waited",
        lambda: server.accept_shortages,
    )

    def by_listener(read: Callable[[ListenerCounters], int]) -> Callable[[], Mapping[tuple[str, ...], Number]]:
        return lambda: {(name,): read(counters) for name, counters in server.listener_counters.items()}

    labels = ("listener",)
    prefix = "kafka_server_socketservermetrics"
    metrics.labelled_gauge(
        f"{prefix}_connection_count", "Open connections", labels, by_listener(lambda one: one.connections_open)
    )
    for name, text, read in (
        ("connection_creation_total", "Connections accepted", lambda one: one.connections_created),
        ("connection_close_total", "Connections closed", lambda one: one.connections_closed),
        ("connections_refused_total", "Connections refused by a limit", lambda one: one.connections_refused),
        ("connections_expired_total", "Connections closed because they were idle", lambda one: one.connections_expired),
        (
            "protocol_violations_total",
            "Connections closed because of a violation of the protocol",
            lambda one: one.protocol_violations,
        ),
        ("incoming_byte_total", "Bytes received", lambda one: one.bytes_in),
        ("outgoing_byte_total", "Bytes sent", lambda one: one.bytes_out),
        ("request_total", "Requests received", lambda one: one.requests),
    ):
        metrics.labelled_counter(f"{prefix}_{name}", text, labels, by_listener(read))
    _register_logins(metrics, server, prefix)


def _register_logins(metrics: BrokerMetrics, server: SocketServer, prefix: str) -> None:
    """Register the logins and handshakes at each listener with SASL or TLS; without such a listener they have no values."""

    def successful() -> Mapping[tuple[str, ...], Number]:
        alone: dict[tuple[str, ...], Number] = {(name,): one.completed for name, one in server.handshakes.items()}
        return alone | {(name,): gate.completed for name, gate in server.gates.items()}

    def failed() -> Mapping[tuple[str, ...], Number]:
        counts: Counter[tuple[str, ...]] = Counter({(name,): one.failed for name, one in server.handshakes.items()})
        counts.update({(name,): gate.failed for name, gate in server.gates.items()})
        return counts

    def expired() -> Mapping[tuple[str, ...], Number]:
        return {(name,): gate.expired for name, gate in server.gates.items()}

    for name, text, read in (
        ("successful_authentication_total", "Clients let in, those that logged in again included", successful),
        ("failed_authentication_total", "Logins and TLS handshakes that failed", failed),
        ("expired_connections_killed_total", "Connections closed because their logins had ended", expired),
    ):
        metrics.labelled_counter(f"{prefix}_{name}", text, ("listener",), read)


def register_free_memory(metrics: BrokerMetrics, memory: FreeMemory | None) -> None:
    """Register what was given back to the system; always 0 where the system does not allow it."""
    metrics.counter(
        "pybroker_memory_given_back_bytes_total",
        "Free memory that was given back to the system after peaks",
        lambda: 0 if memory is None else memory.given_back_bytes,
    )


def register_turns(metrics: BrokerMetrics, watchdog: Watchdog | None) -> None:
    """Register the turns of the event loop, if it is watched; in tests it may not be."""
    if watchdog is None:
        return
    prefix, labels = "pybroker_loop", ("what",)
    metrics.histogram(
        f"{prefix}_turn_seconds",
        "Turns of the event loop, garbage collections included: time on a core and time blocked",
        watchdog.lengths,
    )
    metrics.labelled_counter(
        f"{prefix}_long_turns_total",
        "Turns that were longer than the bound, by what ran in them",
        labels,
        lambda: {(what,): count for what, count in dict(watchdog.long_turns).items()},
    )
    metrics.labelled_counter(
        f"{prefix}_excused_turns_total",
        "Turns that were longer than the bound and may be",
        labels,
        lambda: {(what,): count for what, count in dict(watchdog.excused_turns).items()},
    )
    metrics.labelled_gauge(
        f"{prefix}_longest_turn_seconds",
        "The longest turn since the start by what ran in it, without its wait for a core, of turns that took 5 ms with it",
        labels,
        lambda: {(what,): turn.held_ns / _NS_PER_S for what, turn in dict(watchdog.longest).items()},
    )
    metrics.histogram(
        f"{prefix}_round_seconds",
        "Rounds of the event loop that took 1 ms or more",
        watchdog.rounds.lengths,
    )
    metrics.counter(
        f"{prefix}_long_rounds_total", "Rounds of the event loop that were longer than the bound", lambda: watchdog.long_rounds
    )
    metrics.counter(
        f"{prefix}_core_wait_seconds_total",
        "Time that the event loop's thread waited for a core",
        lambda: watchdog.waited_ns / _NS_PER_S,
    )


class Copied(Protocol):
    """The replicas that this broker copies from their leaders."""

    @property
    def lags(self) -> Iterator[tuple[TopicPartition, BrokerId, int]]:
        """Return how many records each copied partition is behind its leader."""

    @property
    def bytes_count(self) -> int:
        """The bytes that were copied since the start."""


def _register_replication(metrics: BrokerMetrics, replicas: ReplicaManager, copied: Callable[[], Copied | None]) -> None:
    prefix = "kafka_server_replicamanager"

    def led(condition: Callable[[Partition], bool]) -> Callable[[], int]:
        return lambda: sum(one.is_leader and condition(one) for one in list(replicas.partitions.values()))

    def lags() -> Iterator[tuple[TopicPartition, BrokerId, int]]:
        found = copied()
        return iter(()) if found is None else found.lags

    led_here = "Partitions that this broker leads"
    metrics.gauge(f"{prefix}_leadercount", led_here, led(lambda _: True))
    metrics.gauge(
        f"{prefix}_underreplicatedpartitions",
        f"{led_here} with a replica that is not in sync",
        led(lambda one: len(one.isr) < len(one.replicas)),
    )
    metrics.gauge(
        f"{prefix}_underminisrpartitioncount",
        f"{led_here} with fewer replicas in sync than acks=all needs",
        led(lambda one: len(one.isr) < one.min_isr),
    )
    metrics.gauge(
        f"{prefix}_atminisrpartitioncount",
        f"{led_here} with as many replicas in sync as acks=all needs, and others that are not in sync",
        led(lambda one: len(one.isr) == one.min_isr < len(one.replicas)),
    )
    cluster = replicas.cluster
    metrics.counter(f"{prefix}_isrshrinks_total", "Replicas that were taken out of in-sync sets", lambda: cluster.shrinks)
    metrics.counter(f"{prefix}_isrexpands_total", "Replicas that came into in-sync sets", lambda: cluster.expands)
    metrics.counter(
        "kafka_server_brokertopicmetrics_replicationbytesin_total",
        "Bytes that were copied from leaders",
        lambda: 0 if (found := copied()) is None else found.bytes_count,
    )
    metrics.gauge(
        "kafka_server_replicafetchermanager_maxlag",
        "Records by which the copied partition that is the farthest behind is behind its leader",
        lambda: max((lag for _, _, lag in list(lags())), default=0),
    )
    metrics.partition_gauge(
        "kafka_server_fetcherlagmetrics_consumerlag",
        "Records by which a partition that is copied is behind its leader",
        lambda: ((*topic_partition, lag) for topic_partition, _, lag in list(lags())),
        adds_up=True,
    )


def register_replicas(
    metrics: BrokerMetrics, replicas: ReplicaManager, sessions: FetchSessionCache, copied: Callable[[], Copied | None]
) -> None:
    """Register partitions, their replication, purgatories and fetch sessions. `copied` returns None while nothing is copied."""
    _register_replication(metrics, replicas, copied)
    prefix = "kafka_server_replicamanager"
    metrics.gauge(f"{prefix}_partitioncount", "Partitions on this broker", lambda: len(replicas.partitions))
    metrics.gauge(
        f"{prefix}_offlinereplicacount", "Partitions that are offline because their disk failed", lambda: replicas.offline_count
    )
    purgatories: dict[str, Purgatory | ProducePurgatory] = {
        "Fetch": replicas.fetch_purgatory,
        "Produce": replicas.produce_purgatory,
    }

    def by_operation(read: Callable[[Purgatory | ProducePurgatory], int]) -> Callable[[], Mapping[tuple[str, ...], Number]]:
        return lambda: {(name,): read(purgatory) for name, purgatory in purgatories.items()}

    prefix, labels = "kafka_server_delayedoperationpurgatory", ("delayedOperation",)
    metrics.labelled_gauge(f"{prefix}_purgatorysize", "Operations watched", labels, by_operation(lambda one: one.watched))
    metrics.labelled_gauge(f"{prefix}_numdelayedoperations", "Operations waiting", labels, by_operation(lambda one: one.delayed))
    prefix = "kafka_server_delayedoperationmetrics"
    metrics.labelled_counter(
        f"{prefix}_expires_total",
        "Operations whose time was over before they were complete",
        ("delayedOperation", "fetcherType"),
        lambda: {
            ("Fetch", "consumer"): replicas.consumer_fetch_expirations,
            ("Fetch", "follower"): replicas.follower_fetch_expirations,
            ("Produce", ""): replicas.produce_purgatory.expirations,
        },
    )
    prefix = "kafka_server_fetchsessioncache"
    metrics.gauge(f"{prefix}_numincrementalfetchsessions", "Fetch sessions", lambda: len(sessions))
    metrics.gauge(
        f"{prefix}_numincrementalfetchpartitionscached", "Partitions in fetch sessions", lambda: sessions.partition_count
    )
    metrics.counter(
        f"{prefix}_incrementalfetchsessionevictions_total",
        "Fetch sessions that were evicted to make room",
        lambda: sessions.evictions,
    )


def register_transactions(
    metrics: BrokerMetrics,
    coordinator: Callable[[], TransactionCoordinator | None],
    logs: LogManager,
    clock: Clock,
    *,
    timeout_ms_max: int,
) -> None:
    """Register open transactions; `coordinator` returns None while there is none, and `timeout_ms_max` is
    transaction.max.timeout.ms.
    """

    def of_coordinator(read: Callable[[OpenTransactions], Number]) -> Callable[[], Number]:
        def number() -> Number:
            found = coordinator()
            return 0 if found is None else read(found.open_transactions())

        return number

    metrics.gauge("pybroker_transactions_open", "Transactions that are open", of_coordinator(lambda one: one.open_count))
    metrics.gauge(
        "pybroker_transactions_ending",
        "Transactions whose end is decided and not complete",
        of_coordinator(lambda one: one.ending_count),
    )
    metrics.gauge(
        "pybroker_transaction_oldest_age_seconds",
        "Age of the oldest transaction that is open or ends; 0 if there is none",
        of_coordinator(lambda one: one.oldest_age_ms / _MS_PER_S),
    )
    metrics.gauge(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        "Partitions with a transaction that is open for longer than any may be, and 5 minutes",
        lambda: sum(log.producers.is_late(clock.time_ms() - timeout_ms_max - LATE_MS) for log in list(logs.all_logs())),
    )


def register_directories(metrics: BrokerMetrics, logs: LogManager) -> None:
    """Register whether the log directories can be used."""
    metrics.gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that failed",
        lambda: sum(directory.is_offline for directory in logs.directories),
    )
    metrics.gauge(
        "pybroker_log_directories_full",
        "Log directories whose volume has no room for records",
        lambda: sum(directory.room.is_full or directory.is_out_of_room for directory in logs.directories),
    )


def register_logs(metrics: BrokerMetrics, logs: LogManager, cleaner: LogCleaner) -> None:
    """Register the gauges of each partition's log, and of compaction."""

    def by_partition(read: Callable[[Log], int]) -> Callable[[], Iterator[tuple[str, int, Number]]]:
        return lambda: ((*log.topic_partition, read(log)) for log in list(logs.all_logs()))

    for name, text, adds_up, read in (
        ("size", "Bytes of data from the log start offset on", True, known_size),
        ("numlogsegments", "Segments", True, lambda log: len(log.segments)),
        ("logstartoffset", "First offset", False, lambda log: log.log_start_offset),
        ("logendoffset", "Offset of the next record", False, lambda log: log.log_end_offset),
    ):
        metrics.partition_gauge(f"kafka_log_log_{name}", text, by_partition(read), adds_up=adds_up)
    metrics.gauge(
        "pybroker_log_ranges_lost",
        "Ranges of offsets whose records were lost at this start",
        lambda: sum(len(log.lost) for log in list(logs.all_logs())),
    )
    metrics.gauge("pybroker_data_file_descriptors", "Descriptors that data files and their maps hold", lambda: OPEN_FILES.held)
    metrics.gauge(
        "pybroker_data_file_descriptors_max",
        "How many descriptors data files and their maps may hold before one is closed",
        lambda: OPEN_FILES.held_max,
    )
    metrics.counter(
        "pybroker_data_files_closed_total", "Data files closed to make room for others", lambda: OPEN_FILES.let_go_count
    )
    metrics.counter(
        "pybroker_storage_shortages_total",
        "Operations on logs refused because no descriptor or memory map was left",
        lambda: sum(directory.shortages for directory in logs.directories),
    )
    _register_cleaner(metrics, cleaner, logs.services.clock)


def _register_cleaner(metrics: BrokerMetrics, cleaner: LogCleaner, clock: Clock) -> None:
    prefix = "kafka_log_logcleaner"
    for name, text, read_cleaner in (
        (
            "cleaner_recopy_percent",
            "Bytes that the cleaner threads' last compactions kept, in percent",
            lambda: cleaner.recopy_percent,
        ),
        (
            "max_clean_time_secs",
            "How long the last compaction took; the longest of all cleaner threads",
            lambda: cleaner.max_clean_time_s,
        ),
        (
            "max_buffer_utilization_percent",
            "How full the memory for keys was in the last compaction; the largest of all cleaner threads",
            lambda: cleaner.max_buffer_utilization_percent,
        ),
        (
            "max_compaction_delay_secs",
            "How long ago max.compaction.lag.ms required a compaction that has not begun, at most",
            lambda: cleaner.max_compaction_delay_s,
        ),
        (
            "deadthreadcount",
            "Cleaner threads that a bug has ended, until they begin again",
            lambda: cleaner.dead_thread_count,
        ),
    ):
        metrics.gauge(f"{prefix}_{name}", text, read_cleaner)
    prefix = "kafka_log_logcleanermanager"
    for name, text, read_cleaner in (
        ("max_dirty_percent", "Share of the dirtiest compacted log that may be cleaned", lambda: cleaner.max_dirty_percent),
        (
            "uncleanable_partitions_count",
            "Logs that are not compacted because of damage or a bug",
            lambda: cleaner.uncleanable_count,
        ),
        (
            "time_since_last_run_ms",
            "Time since the cleaner last looked for work, in ms",
            lambda: clock.monotonic_ms() - cleaner.last_run_ms,
        ),
    ):
        metrics.gauge(f"{prefix}_{name}", text, read_cleaner)


def register_cluster(metrics: BrokerMetrics, controller: Controller, control: Callable[[], ClusterControl | None]) -> None:
    """Register what the controller knows; `control` returns None for a broker that is alone, which has no elections."""
    prefix = "kafka_controller_kafkacontroller"
    brokers = "Brokers of the cluster that are"
    metrics.gauge(f"{prefix}_globaltopiccount", "Topics of the cluster", lambda: len(controller.image.topics))
    metrics.gauge(
        f"{prefix}_globalpartitioncount",
        "Partitions of the cluster",
        lambda: sum(len(topic.partitions) for topic in controller.image.topics.values()),
    )
    metrics.gauge(f"{prefix}_activebrokercount", f"{brokers} live", lambda: len(controller.image.brokers))
    metrics.gauge(
        f"{prefix}_fencedbrokercount",
        f"{brokers} not live",
        lambda: len(controller.image.registered) - len(controller.image.brokers),
    )
    metrics.gauge(
        f"{prefix}_activecontrollercount",
        "1 on the broker that is the cluster's controller, 0 on the others",
        lambda: int((one := control()) is None or one.is_controller),
    )
    metrics.gauge(
        f"{prefix}_offlinepartitionscount",
        "Partitions of the cluster without a live leader",
        lambda: _offline_partitions(controller.image),
    )
    metrics.counter(
        "pybroker_leader_elections_total",
        "Partitions that got another leader while this broker was the controller, unclean elections included",
        lambda: 0 if (one := control()) is None else one.counts.elections,
    )
    metrics.counter(
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "Partitions that got a leader that was not in sync while this broker was the controller",
        lambda: 0 if (one := control()) is None else one.counts.unclean,
    )


def _offline_partitions(image: ClusterImage) -> int:
    live = image.brokers.keys()
    return sum(partition.leader not in live for topic in image.topics.values() for partition in topic.partitions)
