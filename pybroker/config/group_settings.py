"""The table of broker properties, third part: groups, offsets and transactions, and the families of names that are only accepted.

Source: GroupCoordinatorConfig, TransactionLogConfig, TransactionStateManagerConfig.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pybroker.config.setting import INT_MAX, Check, Effect, Kind, Setting, Update, all_of, at_least, between

_B, _I, _L, _S, _T = Kind.BOOLEAN, Kind.INT, Kind.LONG, Kind.STRING, Kind.LIST
_LATER, _NEVER, _YES = Effect.LATER, Effect.NEVER, Effect.YES

_POLICIES: Final = ("bidirectional", "upgrade", "downgrade", "disabled")
_MIGRATION: Final = Check(f"one of {', '.join(_POLICIES)}", lambda value: value.lower() in _POLICIES)

GROUP_SETTINGS: Final = (
    # classic groups
    Setting("group.min.session.timeout.ms", _I, 6000, "Shortest session timeout that a member may ask for, in ms."),
    Setting("group.max.session.timeout.ms", _I, 1_800_000, "Longest session timeout that a member may ask for, in ms."),
    Setting(
        "group.initial.rebalance.delay.ms", _I, 0,
        "Wait for more members before the first assignment, in ms. (Kafka's default is 3000.)", None, _YES,
    ),
    Setting("group.max.size", _I, INT_MAX, "Members of a group.", at_least(1)),
    Setting(
        "group.coordinator.rebalance.protocols", _T, ("classic", "consumer"), "The kinds of groups that the broker serves.",
        all_of("classic", "consumer", "share", "streams", "unknown"), _YES,
    ),
    Setting("group.coordinator.threads", _I, 1, "Threads of the coordinator in Kafka.", at_least(1), Effect.NEVER),
    Setting(
        "group.coordinator.append.linger.ms", _I, 10,
        "How long to wait in order to write changes of groups together, in ms.", at_least(-1), _LATER,
    ),
    # offsets
    Setting("offset.metadata.max.bytes", _I, 4096, "Largest metadata of a committed offset, in bytes."),
    Setting("offsets.load.buffer.size", _I, 5_242_880, "Bytes read at once when offsets are loaded.", at_least(1)),
    Setting(
        "offsets.topic.replication.factor", Kind.SHORT, 3,
        "Replicas of the topic of offsets; when not set, as many as there are brokers if these are fewer.", at_least(1),
    ),
    Setting("offsets.topic.num.partitions", _I, 50, "Partitions of the topic of offsets.", at_least(1)),
    Setting("offsets.topic.segment.bytes", _I, 104_857_600, "Segment size of the topic of offsets.", at_least(1)),
    Setting("offsets.topic.compression.codec", _I, 0, "Compression of the topic of offsets, by its number.", between(0, 4)),
    Setting("offsets.retention.minutes", _I, 10_080, "How long offsets of an empty group are kept, in minutes.", at_least(1)),
    Setting("offsets.retention.check.interval.ms", _L, 600_000, "How often to look for old offsets, in ms.", at_least(1)),
    Setting("offsets.commit.timeout.ms", _I, 5000, "Longest wait for the replicas of a commit, in ms.", at_least(1)),
    Setting("offsets.commit.required.acks", Kind.SHORT, -1, "Acks of a commit; only -1 is sensible.", between(-1, 1)),
    # consumer groups of KIP-848
    Setting("group.consumer.session.timeout.ms", _I, 45_000, "Session timeout of a member, in ms.", at_least(1)),
    Setting("group.consumer.min.session.timeout.ms", _I, 45_000, "Lower bound of the group's own setting, in ms.", at_least(1)),
    Setting("group.consumer.max.session.timeout.ms", _I, 60_000, "Upper bound of the group's own setting, in ms.", at_least(1)),
    Setting("group.consumer.heartbeat.interval.ms", _I, 5000, "Heartbeat interval of a member, in ms.", at_least(1)),
    Setting("group.consumer.min.heartbeat.interval.ms", _I, 5000, "Lower bound of the group's own setting, in ms.", at_least(1)),
    Setting(
        "group.consumer.max.heartbeat.interval.ms", _I, 15_000,
        "Upper bound of the group's own setting, in ms.", at_least(1), _YES,
    ),
    Setting("group.consumer.max.size", _I, INT_MAX, "Members of a group.", at_least(1)),
    Setting(
        "group.consumer.assignors", _T, ("uniform", "range"), "Assignors, the default one first.",
        all_of("uniform", "range"), _YES,
    ),
    Setting(
        "group.consumer.migration.policy", _S, "bidirectional",
        "Whether a group changes its protocol when members of the other protocol join, or only they are left.", _MIGRATION, _YES,
    ),
    # transactions
    Setting(
        "transactional.id.expiration.ms", _I, 604_800_000,
        "How long an idle transactional id is kept, in ms. A producer that comes later gets INVALID_PRODUCER_ID_MAPPING.",
        at_least(1), _YES,
    ),
    Setting(
        "transaction.max.timeout.ms", _I, 900_000, "Longest timeout that a producer may ask for, in ms. Flink asks for an hour.",
        at_least(1), _YES,
    ),
    Setting(
        "transaction.state.log.replication.factor", Kind.SHORT, 3,
        "Replicas of the topic of transactions; when not set, as many as there are brokers if these are fewer.",
        at_least(1), _YES,
    ),
    Setting("transaction.state.log.num.partitions", _I, 50, "Partitions of the topic of transactions.", at_least(1)),
    Setting("transaction.state.log.min.isr", _I, 2, "min.insync.replicas of the topic of transactions.", at_least(1)),
    Setting("transaction.state.log.segment.bytes", _I, 104_857_600, "Segment size of the topic of transactions.", at_least(1)),
    Setting(
        "transaction.state.log.load.buffer.size", _I, 5_242_880,
        "Bytes read at once when transactions are loaded.", at_least(1), _YES,
    ),
    Setting(
        "transaction.partition.verification.enable", _B, True,
        "Check that a partition was added to the transaction before its batches are accepted.",
        None, _YES, Update.CLUSTER_WIDE,
    ),
    Setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", _I, 10_000,
        "Accepted and ignored: a transaction is aborted as soon as its time is up.",
        at_least(1), _NEVER,
    ),
    Setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms", _I, 3_600_000, "How often to look for expired ids, in ms.",
        at_least(1), _YES,
    ),
)  # fmt: skip


class Family(NamedTuple):
    """Names that are accepted unread: those that begin with `prefix`, or `prefix` itself if it does not end in a dot."""

    prefix: str
    doc: str
    effect: Effect = Effect.NEVER


FAMILIES: Final = (
    *(
        Family(f"ssl.{name}", "Java classes and providers for TLS: OpenSSL does it here.")
        for name in (
            *("engine.factory.class", "keymanager.algorithm", "provider", "secure.random.implementation"),
            "trustmanager.algorithm",
        )
    ),
    Family("ssl.allow.dn.changes", "Checks of a new key store: the broker takes each that it can read."),
    Family("ssl.allow.san.changes", "Checks of a new key store: the broker takes each that it can read."),
    Family("sasl.jaas.config", "A login module stands behind a listener and a mechanism: listener.name.*.", _LATER),
    Family("sasl.kerberos.", "Kerberos.", _LATER),
    Family("sasl.mechanism.controller.protocol", "Logins at Kafka's controller.", _LATER),
    *(
        Family(f"sasl.{name}", "The parts of SASL that are for clients.", _LATER)
        for name in (
            *("client.callback.handler.class", "login.", "oauthbearer.assertion.", "oauthbearer.client.credentials."),
            *("oauthbearer.jwt.retriever.class", "oauthbearer.scope", "oauthbearer.token.endpoint.url"),
        )
    ),
    Family("sasl.oauthbearer.jwt.validator.class", "The Java class that checks tokens.", _LATER),
    Family("listener.name.", "Properties of one listener. Those of TLS, logins and limits have an effect.", _LATER),
    Family("client.quota.callback.class", "Quotas.", _LATER),
    Family("principal.builder.class", "The name of a connection's user.", _LATER),
    Family("remote.", "Tiered storage.", _LATER),
    Family("group.share.", "Share groups.", _LATER),
    Family("share.", "Share groups.", _LATER),
    Family("group.streams.", "Streams groups.", _LATER),
    Family("group.coordinator.new.enable", "Kafka's switch between its old and new coordinators."),
    Family("group.coordinator.background.threads", "Threads of Kafka's coordinator."),
    Family("group.coordinator.cached.buffer.max.bytes", "Memory of Kafka's coordinator."),
    Family("group.consumer.assignment.interval.ms", "Consumer groups of KIP-848.", _LATER),
    Family("group.consumer.min.assignment.interval.ms", "Consumer groups of KIP-848.", _LATER),
    Family("group.consumer.max.assignment.interval.ms", "Consumer groups of KIP-848.", _LATER),
    Family("group.consumer.regex.refresh.interval.ms", "Regular expressions are matched again at once when topics change."),
    Family(
        "transaction.two.phase.commit.enable", "Transactions that an external coordinator commits (two-phase commit).", _LATER
    ),
    Family("add.partitions.to.txn.retry.backoff.", "Retries inside Kafka's broker."),
    Family("cordoned.log.dirs", "Directories that get no new partitions.", _LATER),
    Family("follower.fetch.last.tiered.offset.enable", "Tiered storage.", _LATER),
    Family("telemetry.", "Metrics pushed by clients.", _LATER),
    Family("zookeeper.", "ZooKeeper: pybroker keeps its metadata in metadata.store."),
    Family("controller.", "Other settings of Kafka's controller quorum: etcd has its own."),
    Family("metadata.", "Kafka's metadata log: see metadata.store."),
    Family("initial.broker.registration.timeout.ms", "Kafka's controller quorum."),
    Family("control.plane.listener.name", "Kafka's listener for its controller."),
    Family("early.start.listeners", "Kafka's listener for its controller."),
    Family("inter.broker.protocol.version", "Rolling upgrades of Kafka."),
    Family("broker.id.generation.enable", "Ids given by ZooKeeper."),
    Family("reserved.broker.max.id", "Ids given by ZooKeeper."),
    Family("password.encoder.", "Passwords kept in ZooKeeper."),
    Family("replication.quota.", "Windows of Kafka's own metrics."),
    Family("alter.log.dirs.replication.quota.", "Windows of Kafka's own metrics."),
    Family("metrics.", "Kafka's own metrics: see metrics.listener."),
    Family("metric.reporters", "Java classes for metrics: see metrics.listener."),
    Family("kafka.metrics.", "Java classes for metrics: see metrics.listener."),
    Family("auto.include.jmx.reporter", "Java's metrics."),
    Family("server.max.startup.time.ms", "A bound on the start of Kafka."),
    Family("internal.", "Kafka's own tests."),
    Family("socket.connection.setup.timeout.", "Connections between brokers.", _LATER),
    Family("security.providers", "Java's security providers."),
    Family("eligible.leader.replicas.enable", "Eligible leader replicas are always on here."),
    Family("unclean.leader.election.interval.ms", "A task of Kafka's controller.", _LATER),
    Family("unstable.", "Unreleased versions of Kafka's protocol."),
    Family("alter.config.policy.kraft.compatibility.enable", "Kafka's move away from ZooKeeper."),
    Family("config.providers", "Where values such as `${file:PATH:KEY}` are from, by names.", _YES),
    Family("config.providers.", "Kafka's classes that read such values from files, directories and the environment.", _YES),
)
