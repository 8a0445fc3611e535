"""The broker properties of Kafka that pybroker accepts unread, with Kafka's types and defaults, for DescribeConfigs.

Tools look for some of them: the version of the broker is `inter.broker.protocol.version` to programs from before Kafka 4. No part
of the broker reads them, so a start does not pay for this table.

Source: KafkaConfig of Kafka 3.9, without the properties that are internal to Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pybroker.config.setting import Kind, Setting
from pybroker.config.table import family_of

_NULL: Final = "null"
_ROWS: Final = """
alter.config.policy.kraft.compatibility.enable boolean false
alter.log.dirs.replication.quota.window.num int 11
alter.log.dirs.replication.quota.window.size.seconds int 1
auto.include.jmx.reporter boolean true
broker.id.generation.enable boolean true
client.quota.callback.class class null
control.plane.listener.name string null
controller.quorum.append.linger.ms int 25
controller.quorum.election.backoff.max.ms int 1000
controller.quorum.election.timeout.ms int 1000
controller.quorum.fetch.timeout.ms int 2000
controller.quorum.request.timeout.ms int 2000
controller.quorum.retry.backoff.ms int 20
controller.socket.timeout.ms int 30000
early.start.listeners string null
eligible.leader.replicas.enable boolean false
group.share.delivery.count.limit int 5
group.share.heartbeat.interval.ms int 5000
group.share.max.groups short 10
group.share.max.heartbeat.interval.ms int 15000
group.share.max.record.lock.duration.ms int 60000
group.share.max.session.timeout.ms int 60000
group.share.max.size short 200
group.share.min.heartbeat.interval.ms int 5000
group.share.min.record.lock.duration.ms int 15000
group.share.min.session.timeout.ms int 45000
group.share.partition.max.record.locks int 200
group.share.record.lock.duration.ms int 30000
group.share.session.timeout.ms int 45000
initial.broker.registration.timeout.ms int 60000
inter.broker.protocol.version string 3.9-IV0
kafka.metrics.polling.interval.secs int 10
kafka.metrics.reporters list
metadata.log.dir string null
metadata.log.max.record.bytes.between.snapshots long 20971520
metadata.log.max.snapshot.interval.ms long 3600000
metadata.log.segment.bytes int 1073741824
metadata.log.segment.ms long 604800000
metadata.max.idle.interval.ms int 500
metadata.max.retention.bytes long 104857600
metadata.max.retention.ms long 604800000
metric.reporters list
metrics.num.samples int 2
metrics.recording.level string INFO
metrics.sample.window.ms long 30000
password.encoder.cipher.algorithm string AES/CBC/PKCS5Padding
password.encoder.iterations int 4096
password.encoder.key.length int 128
password.encoder.keyfactory.algorithm string null
password.encoder.old.secret password null
password.encoder.secret password null
principal.builder.class class org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
remote.fetch.max.wait.ms int 500
remote.log.index.file.cache.total.size.bytes long 1073741824
remote.log.manager.copier.thread.pool.size int -1
remote.log.manager.copy.max.bytes.per.second long 9223372036854775807
remote.log.manager.copy.quota.window.num int 11
remote.log.manager.copy.quota.window.size.seconds int 1
remote.log.manager.expiration.thread.pool.size int -1
remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807
remote.log.manager.fetch.quota.window.num int 11
remote.log.manager.fetch.quota.window.size.seconds int 1
remote.log.manager.task.interval.ms long 30000
remote.log.manager.thread.pool.size int 10
remote.log.metadata.custom.metadata.max.bytes int 128
remote.log.metadata.manager.class.name string \
org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path string null
remote.log.metadata.manager.impl.prefix string rlmm.config.
remote.log.metadata.manager.listener.name string null
remote.log.reader.max.pending.tasks int 100
remote.log.reader.threads int 10
remote.log.storage.manager.class.name string null
remote.log.storage.manager.class.path string null
remote.log.storage.manager.impl.prefix string rsm.config.
remote.log.storage.system.enable boolean false
replication.quota.window.num int 11
replication.quota.window.size.seconds int 1
reserved.broker.max.id int 1000
sasl.client.callback.handler.class class null
sasl.jaas.config password null
sasl.kerberos.kinit.cmd string /usr/bin/kinit
sasl.kerberos.min.time.before.relogin long 60000
sasl.kerberos.principal.to.local.rules list DEFAULT
sasl.kerberos.service.name string null
sasl.kerberos.ticket.renew.jitter double 0.05
sasl.kerberos.ticket.renew.window.factor double 0.8
sasl.login.callback.handler.class class null
sasl.login.class class null
sasl.login.connect.timeout.ms int null
sasl.login.read.timeout.ms int null
sasl.login.refresh.buffer.seconds short 300
sasl.login.refresh.min.period.seconds short 60
sasl.login.refresh.window.factor double 0.8
sasl.login.refresh.window.jitter double 0.05
sasl.login.retry.backoff.max.ms long 10000
sasl.login.retry.backoff.ms long 100
sasl.mechanism.controller.protocol string GSSAPI
sasl.oauthbearer.token.endpoint.url string null
security.providers string null
socket.connection.setup.timeout.max.ms long 30000
socket.connection.setup.timeout.ms long 10000
ssl.allow.dn.changes boolean false
ssl.allow.san.changes boolean false
ssl.engine.factory.class class null
ssl.keymanager.algorithm string SunX509
ssl.provider string null
ssl.secure.random.implementation string null
ssl.trustmanager.algorithm string PKIX
telemetry.max.bytes int 1048576
zookeeper.clientCnxnSocket string null
zookeeper.connect string null
zookeeper.connection.timeout.ms int null
zookeeper.max.in.flight.requests int 10
zookeeper.metadata.migration.enable boolean false
zookeeper.session.timeout.ms int 18000
zookeeper.set.acl boolean false
zookeeper.ssl.cipher.suites list null
zookeeper.ssl.client.enable boolean false
zookeeper.ssl.crl.enable boolean false
zookeeper.ssl.enabled.protocols list null
zookeeper.ssl.endpoint.identification.algorithm string HTTPS
zookeeper.ssl.keystore.location string null
zookeeper.ssl.keystore.password password null
zookeeper.ssl.keystore.type string null
zookeeper.ssl.ocsp.enable boolean false
zookeeper.ssl.protocol string TLSv1.2
zookeeper.ssl.truststore.location string null
zookeeper.ssl.truststore.password password null
zookeeper.ssl.truststore.type string null
"""
"""Name, type and default; a text without a default is empty."""


def _settings() -> Iterator[Setting]:
    for row in _ROWS.strip().splitlines():
        name, kind, default = (*row.split(), "")[:3]
        family = family_of(name)
        assert family is not None
        setting = Setting(name, Kind(kind), None, family.doc, effect=family.effect)
        if default != _NULL:
            setting = setting._replace(default=setting.parse(default) if default else () if kind == "list" else "")
        yield setting


UNREAD_SETTINGS: Final = {setting.name: setting for setting in _settings()}
"""By name."""
