"""The table of broker properties, part four: logins.

Source: BrokerSecurityConfigs, SaslConfigs.
"""

from __future__ import annotations

from typing import Final

from pybroker.config.setting import Kind, Setting, at_least

SASL_SETTINGS: Final = (
    Setting(
        "sasl.enabled.mechanisms", Kind.LIST, ("GSSAPI",),
        "The mechanisms by which clients log in at SASL_PLAINTEXT and SASL_SSL listeners: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512,"
        " OAUTHBEARER. (Kafka's default is not supported: such a listener needs this setting.)",
    ),
    Setting(
        "sasl.mechanism.inter.broker.protocol", Kind.STRING, "GSSAPI",
        "The mechanism by which the brokers of a cluster log in at each other, if their listener is SASL_PLAINTEXT or SASL_SSL:"
        " one of that listener's, with username and password in listener.name.LISTENER.MECHANISM.sasl.jaas.config. (Kafka's"
        " default is not supported: such brokers need this setting.)",
    ),
    Setting(
        "sasl.server.max.receive.size", Kind.INT, 524_288,
        "The largest request of a client that has not logged in, in bytes; below 1 is socket.request.max.bytes.",
    ),
    Setting(
        "connection.failed.authentication.delay.ms", Kind.INT, 100,
        "Delay of the response to a login that failed, and of the end of its connection, in ms.", at_least(0),
    ),
    Setting(
        "connections.max.reauth.ms", Kind.LONG, 0,
        "Time after which a client must log in again on its connection, in ms; the broker closes the connection of a client that"
        " does not, at its next request. 0 is never.",
    ),
    Setting(
        "pybroker.scram.users", Kind.PASSWORD, None,
        "pybroker's own: users for SCRAM, which a start adds to the metadata if they have no credential yet, as Kafka's"
        " `kafka-storage format --add-scram` does: SCRAM-SHA-256=[name=NAME,password=PASSWORD], with iterations=NUMBER before the"
        " name if not 4096, and with commas between users.",
    ),
)  # fmt: skip
