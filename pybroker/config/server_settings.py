"""The table of broker properties, first part: the server itself, its sockets, topics, requests and replication.

Defaults and limits are those of Kafka 3.9, except where a description has another.

Source: KafkaConfig, ServerConfigs, SocketServerConfigs, ReplicationConfigs.
"""

from __future__ import annotations

import re
from typing import Final

from pybroker.config.setting import INT_MAX, NOT_EMPTY, Check, Effect, Kind, Setting, Update, all_of, at_least, between, one_of
from pybroker.config.topic_settings import of_topics

_B, _I, _L, _S, _T = Kind.BOOLEAN, Kind.INT, Kind.LONG, Kind.STRING, Kind.LIST
_LATER, _NEVER = Effect.LATER, Effect.NEVER
_ALL = Update.CLUSTER_WIDE

_NOT_IN_TOKENS: Final = re.compile(r"[^A-Za-z0-9._~+/=-]")
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
RELEASES: Final = ("0.8.2", "0.9", "0.10.2", "1.1", "2.8", "3.9", "4.3")
METADATA_STORE: Final = Check(
    "sqlite: or sqlite:PATH or memory: or unix:PATH or etcd:URL[,URL...]",
    lambda value: value == "memory:" or value.startswith(("sqlite:", "unix:", "etcd:")),
)
CLUSTER_ID: Final = Check(  # Kafka accepts any text; line ends and backslashes change when meta.properties is read again
    "at most 255 printable characters without a backslash",
    lambda value: len(value) <= 255 and value.isprintable() and "\\" not in value,
)
TOKEN: Final = Check(  # what a header can carry, by RFC 6750
    "letters, digits and -._~+/=", lambda value: value != "" and value.isascii() and _NOT_IN_TOKENS.search(value) is None
)
BUFFER_BYTES: Final = Check("at least 1, or -1 for the system's default", lambda value: value >= 1 or value == -1)

SERVER_SETTINGS: Final = (
    # the server
    Setting("broker.id", _I, -1, "The broker's number, by its older name; -1 means the number in node.id.", at_least(-1)),
    Setting("node.id", _I, 1, "The broker's number in the cluster. (Kafka has no default.)", at_least(0)),
    Setting(
        "cluster.id", _S, None, "The cluster's id; when not set, the first start makes an id and keeps it in the data directory.",
        CLUSTER_ID,
    ),
    Setting("broker.rack", _S, None, "The rack of the broker; sent to clients that choose a broker by rack."),
    Setting(
        "log.dir", _S, "pybroker-data",
        "The data directory when log.dirs is not set. (Kafka's default is /tmp/kafka-logs, which a reboot may empty.)", NOT_EMPTY,
    ),
    Setting("log.dirs", _T, None, "The data directories, separated by commas."),
    Setting(
        "metadata.store", _S, "sqlite:",
        "pybroker's own: where topics and ids are kept; sqlite: is a file in the first data directory, memory: is lost"
        " at a stop, etcd:http://HOST:2379[,...][/NAMESPACE] is etcd 3.4 or newer, unix:PATH is the socket of another process.",
        METADATA_STORE,
    ),
    Setting("metadata.store.user", _S, None, "pybroker's own: the user of etcd, where etcd has authentication enabled."),
    Setting("metadata.store.password", Kind.PASSWORD, None, "pybroker's own: the password of metadata.store.user."),
    Setting(
        "metadata.store.password.file", _S, None,
        "pybroker's own: a file with the password of metadata.store.user, instead of metadata.store.password.",
    ),
    Setting(
        "metadata.store.ssl.ca.file", _S, None,
        "pybroker's own: a PEM file with the authorities that sign the certificates of etcd, with https:// addresses; when not"
        " set, those of the system.",
    ),
    Setting(
        "metadata.store.ssl.certificate.file", _S, None,
        "pybroker's own: a PEM file with the certificate that the broker shows to etcd, for etcd's --client-cert-auth.",
    ),
    Setting(
        "metadata.store.ssl.key.file", _S, None,
        "pybroker's own: a PEM file with the key of that certificate, without a password; when not set, the certificate's file"
        " has the key, too.",
    ),
    Setting(
        "metadata.memory.set.logs.aside", _B, False,
        "pybroker's own: with metadata.store=memory:, rename logs of earlier runs to -stray instead of refusing to start.",
    ),
    Setting(
        "metrics.listener", _S, "",
        "pybroker's own: HOST:PORT, or with TLS https://HOST:PORT, of the page with the metrics in Prometheus' text format; empty"
        " means no page. listener.name.metrics.ssl.* come before ssl.*.",
    ),
    Setting(
        "pybroker.metrics.token", Kind.PASSWORD, None,
        "pybroker's own: the token that a request for the metrics must carry, as Authorization: Bearer TOKEN. Those of /livez and"
        " /readyz need none.",
        TOKEN,
    ),
    Setting(
        "pybroker.metrics.topics", _S, "all",
        "pybroker's own: the metrics of topics have series for each topic and partition (all), for each topic with its partitions"
        " summed (sum), or only for all topics together (none).",
        one_of("all", "sum", "none"),
    ),
    Setting(
        "pybroker.metrics.groups", _S, "all",
        "pybroker's own: the metrics of groups have series for each group and partition (all), for each group and topic (sum), or"
        " are left out (none).",
        one_of("all", "sum", "none"),
    ),
    Setting(
        "pybroker.metrics.internal.topics", _B, True,
        "pybroker's own: whether internal topics have series of their own among the metrics.",
    ),
    Setting(
        "pybroker.as.version", _S, None,
        "pybroker's own, for tests of clients: the release of Kafka whose APIs and versions the broker announces and accepts,"
        " instead of all that it serves (docs/testing.md). Only for a broker that is alone.",
        one_of(*RELEASES),
    ),
    Setting(
        "pybroker.faults.file", _S, None,
        "pybroker's own, for tests of clients: a file of JSON or YAML with rules by which requests go wrong, from the start on"
        " (docs/testing.md).",
    ),
    Setting(
        "pybroker.admin.listener", _S, "",
        "pybroker's own: http://HOST:PORT, or with TLS https://HOST:PORT, of the JSON API for tests, with faults and the last"
        " requests (docs/testing.md); port 0 is any free port, empty means no API. Without pybroker.admin.token, HOST is an"
        " address of the machine itself. listener.name.admin.ssl.* come before ssl.*.",
    ),
    Setting(
        "pybroker.admin.token", Kind.PASSWORD, None,
        "pybroker's own: the token that each request to pybroker.admin.listener must carry, as Authorization: Bearer TOKEN.",
        TOKEN,
    ),
    Setting(
        "pybroker.admin.requests", _I, 10_000,
        "pybroker's own: how many of the last requests of clients the API of pybroker.admin.listener shows; 0 means that none are"
        " kept, which costs nothing.",
        between(0, 1_000_000),
    ),
    Setting(
        "pybroker.virtual.time", _B, False,
        "pybroker's own, for tests of clients: the broker has a clock that pybroker.admin.listener can move"
        " (docs/testing.md). Only for a broker that is a cluster by itself.",
    ),
    Setting(
        "pybroker.down.conversion.chunk.bytes", _I, 114688,
        "pybroker's own: bytes of whole batches that are converted at once for a client from before 0.11 (KIP-283). Kafka's are"
        " 131072.",
        at_least(1),
    ),
    Setting(
        "pybroker.down.conversion.padding", _S, "integer-max",
        "pybroker's own: the size in the message that pads a converted response. Java consumers from 0.9 to 0.10.2 and"
        " kafka-node need fitted.",
        one_of("integer-max", "fitted"),
    ),
    Setting(
        "pybroker.down.conversion.eager", _B, False,
        "pybroker's own, for a benchmark only: convert whole responses in memory before they are sent, as before KIP-283.",
    ),
    Setting(
        "pybroker.produce.inflation.max", _I, 1100,
        "pybroker's own: the compressed records of one produce request may inflate to this many times max.message.bytes, by sum."
        " gzip reaches 1032 to 1 with zeros.",
        at_least(1),
    ),
    # listeners
    Setting(
        "listeners", _S, "PLAINTEXT://127.0.0.1:9092",
        "Where to listen: NAME://host:port, separated by commas. An empty host is every interface, port 0 any free port. (Kafka's"
        " default, and that of the container image, is every interface: PLAINTEXT://:9092.)",
        NOT_EMPTY,
    ),
    Setting(
        "advertised.listeners", _S, None,
        "The addresses for clients, in the form of listeners; when not set, a client gets the address that it connected to.",
    ),
    Setting(
        "pybroker.advertised.by.peer", _B, False,
        "pybroker's own, for containers: where advertised.listeners has no address, send localhost to clients that come through a"
        " published port, and to clients on the container's networks the address that they connected to.",
    ),
    Setting(
        "pybroker.advertised.outside", _S, None,
        "pybroker's own, with pybroker.advertised.by.peer: HOST[:PORT] for clients outside of the container's networks, instead"
        " of localhost and the listener's port.",
    ),
    Setting(
        "listener.security.protocol.map", _S, ",".join(f"{name}:{name}" for name in SECURITY_PROTOCOLS),
        "The security protocol of each listener name: NAME:PROTOCOL, separated by commas.",
    ),
    Setting("inter.broker.listener.name", _S, None, "The listener for traffic between brokers; must be one of listeners."),
    Setting(
        "security.inter.broker.protocol", _S, "PLAINTEXT",
        "The listener for traffic between brokers, by the name of its protocol, when inter.broker.listener.name is not set.",
        one_of(*SECURITY_PROTOCOLS),
    ),
    Setting(
        "controller.listener.names", _T, None,
        "The listeners of the controllers, where their etcds speak to each other. A broker that is a cluster by itself ignores"
        " them.",
    ),
    Setting(
        "controller.quorum.voters", _T, (),
        "The controllers of the cluster: ID@HOST:PORT, separated by commas. With several, or where process.roles has one role,"
        " each controller runs etcd with the metadata, unless metadata.store is set.",
    ),
    Setting(
        "controller.quorum.bootstrap.servers", _T, (),
        "The same as controller.quorum.voters without the ids: HOST:PORT, separated by commas.",
    ),
    Setting(
        "process.roles", _T, (),
        "The roles of this process; none means both. A controller without a broker needs controller.quorum.voters.",
        all_of("broker", "controller"),
    ),
    # sockets
    Setting("socket.send.buffer.bytes", _I, 102_400, "Send buffer of a connection; -1 is the system's default.", BUFFER_BYTES),
    Setting(
        "socket.receive.buffer.bytes", _I, 262_144,
        "Receive buffer of a connection; -1 is the system's default. (Kafka's default is 102400. A large request then comes in"
        " more pieces, and costs up to half as much again.)", BUFFER_BYTES,
    ),
    Setting(
        "socket.request.max.bytes", _I, 104_857_600,
        "Largest request, in bytes; a connection that sends a larger one is closed.", at_least(1),
    ),
    Setting(
        "socket.listen.backlog.size", _I, 4_096,
        "Connections that may wait to be accepted; Linux allows at most net.core.somaxconn. (Kafka's default is 50. A client that"
        " connects when more wait has to try again after 1 s or more.)", at_least(1),
    ),
    Setting(
        "queued.max.requests", _I, 500,
        "Requests in work at once; above it, the broker reads no further requests.", at_least(1),
    ),
    Setting(
        "queued.max.request.bytes", _L, -1,
        "Bytes of requests in memory at once, above which the broker reads no further requests; <= 0 is no bound."
        " Must be larger than socket.request.max.bytes.",
    ),
    Setting(
        "max.connections", _I, INT_MAX,
        "Connections at once; at most about half of the file descriptors. Further connections wait. A listener may have a"
        " lower limit, listener.name.LISTENER.max.connections.",
        at_least(0), update=_ALL,
    ),
    Setting("max.connections.per.ip", _I, INT_MAX, "Connections at once from one address.", at_least(0), update=_ALL),
    Setting(
        "max.connections.per.ip.overrides", _S, "",
        "Other limits for single addresses or hosts: host:count, separated by commas; the last colon is the separator, for IPv6."
        " A name is looked up at the start and when this is changed. A client can set 1,000 hosts, 100 of them by name.",
        update=_ALL,
    ),
    Setting(
        "max.connection.creation.rate", _I, INT_MAX,
        "New connections per second, over the windows of quota.window.num; further connections wait.", at_least(0), update=_ALL,
    ),
    Setting(
        "connections.max.idle.ms", _L, 600_000,
        "Time without a request after which a connection is closed, in ms; below 0 is never.",
    ),
    Setting(
        "pybroker.request.elements.max", _I, 25_000,
        "pybroker's own: a connection is closed when a request has more elements of arrays, or kB of texts, by sum. 10,000"
        " partitions of as many topics are 20,000 elements, and requests of clients have a few more. A larger request holds the"
        " loop for longer. With its share of the response, an element takes up to about 1 kB of memory.", at_least(1),
    ),
    Setting(
        "pybroker.first.request.timeout.ms", _L, 60_000,
        "pybroker's own: a connection that has not completed its first request after this time is closed, in ms.", at_least(1),
    ),
    Setting(
        "pybroker.request.progress.timeout.ms", _L, 30_000,
        "pybroker's own: a connection is closed when a request that it sends got less than 1 kB more, and not its end, in this"
        " time, in ms.", at_least(1),
    ),
    Setting(
        "pybroker.unsent.response.bytes.max", _L, 268_435_456,
        "pybroker's own: when the responses that clients have not taken have more bytes than this by sum, connections are"
        " closed at once, at first those that have waited longest.", at_least(1 << 20),
    ),
    # topics
    Setting("num.partitions", _I, 1, "Partitions of a topic that is created without a number.", at_least(1)),
    Setting("default.replication.factor", _I, 1, "Replicas of a topic that is created without a number.", at_least(1)),
    Setting(
        "pybroker.replication.factor.accept", _S, "brokers",
        "pybroker's own: a topic can have as many replicas as there are brokers (brokers), as in Kafka; or a single broker also"
        " accepts a larger number, and keeps one replica (any).",
        one_of("brokers", "any"),
    ),
    Setting("auto.create.topics.enable", _B, True, "Create a topic when a client asks for its metadata for the first time."),
    Setting("delete.topic.enable", _B, True, "Allow topics to be deleted."),
    of_topics("message.max.bytes"),
    of_topics("min.insync.replicas"),
    of_topics("unclean.leader.election.enable"),
    # requests
    Setting(
        "fetch.max.bytes", _I, 57_671_680, "Largest response to a fetch, in bytes, whatever the client asks for.", at_least(1024),
    ),
    Setting("max.incremental.fetch.session.cache.slots", _I, 1000, "Incremental fetch sessions kept at once.", at_least(0)),
    Setting(
        "pybroker.fetch.session.cache.partitions", _I, 250_000,
        "pybroker's own: partitions that all incremental fetch sessions keep together. A fetcher for whose session there is no"
        " room is served without one.", at_least(0),
    ),
    Setting(
        "fetch.purgatory.purge.interval.requests", _I, 1000,
        "Completed fetches that are still watched; this many start a purge.",
    ),
    Setting(
        "producer.purgatory.purge.interval.requests", _I, 1000,
        "Completed produce requests that are still watched, in Kafka; pybroker forgets each at once.", None, _NEVER,
    ),
    Setting("delete.records.purgatory.purge.interval.requests", _I, 1, "The same for requests to delete records.", None, _LATER),
    Setting(
        "max.request.partition.size.limit", _I, 2000,
        "Partitions in one response to DescribeTopicPartitions.", at_least(1), _LATER,
    ),
    Setting("request.timeout.ms", _I, 30_000, "Longest wait for a response from another broker, in ms."),
    Setting(
        "producer.id.expiration.ms", _I, 86_400_000,
        "Time after which an idle producer's state is dropped, in ms; that of an open transaction stays.",
        at_least(1), update=_ALL,
    ),
    Setting(
        "producer.id.expiration.check.interval.ms", _I, 600_000,
        "How often the broker looks for idle producers, in ms.", at_least(1),
    ),
    # threads
    Setting(
        "num.network.threads", _I, 3,
        "Network threads in Kafka; pybroker serves all connections from one loop.", at_least(1), _NEVER, _ALL,
    ),
    Setting(
        "num.io.threads", _I, 8, "Request threads in Kafka; pybroker handles requests in one loop.", at_least(1), _NEVER, _ALL,
    ),
    Setting("background.threads", _I, 10, "Threads for background work in Kafka.", at_least(1), _NEVER, _ALL),
    Setting(
        "num.recovery.threads.per.data.dir", _I, 1,
        "Threads that recover a data directory's logs at start, after an unclean stop.", at_least(1), update=_ALL,
    ),
    Setting("num.replica.alter.log.dirs.threads", _I, None, "Threads that move replicas between data directories.", None, _LATER),
    # replication
    Setting("num.replica.fetchers", _I, 1, "Fetchers per source broker.", at_least(1), update=_ALL),
    Setting("replica.fetch.max.bytes", _I, 1_048_576, "Bytes per partition in one fetch of a follower.", at_least(0)),
    Setting(
        "replica.fetch.response.max.bytes", _I, 10_485_760,
        "Bytes in a whole response to a fetch of a follower.", at_least(0),
    ),
    Setting("replica.fetch.min.bytes", _I, 1, "Bytes that a follower's fetch waits for."),
    Setting("replica.fetch.wait.max.ms", _I, 500, "Longest wait of a follower's fetch, in ms."),
    Setting("replica.fetch.backoff.ms", _I, 1000, "Pause of a follower after an error, in ms.", at_least(0)),
    Setting(
        "replica.lag.time.max.ms", _L, 30_000,
        "Time behind the leader after which a follower is out of sync, in ms.",
    ),
    Setting("replica.socket.timeout.ms", _I, 30_000, "Longest wait for a leader's response, in ms."),
    Setting(
        "replica.socket.receive.buffer.bytes", _I, -1,
        "Receive buffer of a follower's connection; -1 is the system's default, which grows with use. (Kafka's default is 65536."
        " Large batches then come in more pieces.)",
    ),
    Setting("replica.high.watermark.checkpoint.interval.ms", _L, 5000, "How often high watermarks are written to disk, in ms."),
    Setting("replica.selector.class", _S, None, "A class that chooses the replica that a consumer reads from.", None, _LATER),
    Setting("auto.leader.rebalance.enable", _B, True, "Move leaders back to the preferred replicas."),
    Setting(
        "leader.imbalance.per.broker.percentage", _I, 10,
        "Imbalance from which Kafka's ZooKeeper controller moves leaders back; the present one moves all, and so does pybroker.",
        between(0, 100), _NEVER,
    ),
    Setting("leader.imbalance.check.interval.seconds", _L, 300, "How often to look for imbalance, in s.", at_least(1)),
    # the cluster
    Setting(
        "broker.heartbeat.interval.ms", _I, 2000,
        "How often a broker renews its session with the metadata store, in ms; at least three times in each session.",
        at_least(1),
    ),
    Setting(
        "broker.session.timeout.ms", _I, 9000,
        "Time without a renewal after which a broker's session has ended, and other brokers lead its partitions, in ms.",
        at_least(1),
    ),
    Setting("controlled.shutdown.enable", _B, True, "Hand over leadership of partitions before stopping."),
    Setting("controlled.shutdown.max.retries", _I, 3, "Attempts to hand over before stopping.", None, _LATER),
    Setting("controlled.shutdown.retry.backoff.ms", _L, 5000, "Pause between the attempts to hand over, in ms.", None, _LATER),
    Setting("create.topic.policy.class.name", Kind.CLASS, None, "A class that checks new topics.", None, _LATER),
    Setting(
        "alter.config.policy.class.name", Kind.CLASS, None,
        "A class that checks changes of the configuration.", None, _LATER,
    ),
)  # fmt: skip
