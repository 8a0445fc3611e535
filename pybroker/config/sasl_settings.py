"""The table of broker properties, part four: logins.

Source: BrokerSecurityConfigs, SaslConfigs.
"""

from __future__ import annotations

from typing import Final

from pybroker.config.setting import Kind, Setting, at_least

OAUTHBEARER_SETTINGS: Final = (
    Setting(
        "sasl.oauthbearer.jwks.endpoint.url", Kind.STRING, None,
        "Where the keys are that verify the signatures of tokens, a JSON Web Key Set: file:///PATH, or a URL of HTTP or HTTPS.",
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms", Kind.LONG, 3_600_000,
        "Time after which the broker reads the keys again, in ms. A token with an unknown key id has them read sooner.",
        at_least(1),
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Kind.LONG, 100,
        "Time after which the broker tries again to read the keys, in ms; it doubles with each failure.", at_least(1),
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Kind.LONG, 10_000,
        "The longest time between two tries to read the keys, in ms.", at_least(1),
    ),
    Setting(
        "sasl.oauthbearer.expected.audience", Kind.LIST, None,
        "The audiences of which a token must have one in its claim aud. Without this setting, a token must have no such claim.",
    ),
    Setting(
        "sasl.oauthbearer.expected.issuer", Kind.STRING, None,
        "The issuer that a token must have in its claim iss. Without this setting, any.",
    ),
    Setting(
        "sasl.oauthbearer.clock.skew.seconds", Kind.INT, 30,
        "How far the clock of the issuer may be from the broker's, in s.", at_least(0),
    ),
    Setting("sasl.oauthbearer.scope.claim.name", Kind.STRING, "scope", "The claim that has the scopes of a token."),
    Setting("sasl.oauthbearer.sub.claim.name", Kind.STRING, "sub", "The claim that has the name of the user."),
)  # fmt: skip

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
        "sasl.server.callback.handler.class", Kind.CLASS, None,
        "For OAUTHBEARER, as listener.name.LISTENER.oauthbearer.sasl.server.callback.handler.class: Kafka's class for signed"
        " tokens, OAuthBearerValidatorCallbackHandler, which is the default here, or the one for tokens without a signature,"
        " internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler.",
    ),
    *OAUTHBEARER_SETTINGS,
    Setting(
        "pybroker.scram.users", Kind.PASSWORD, None,
        "pybroker's own: users for SCRAM, which a start adds to the metadata if they have no credential yet, as Kafka's"
        " `kafka-storage format --add-scram` does: SCRAM-SHA-256=[name=NAME,password=PASSWORD], with iterations=NUMBER beside the"
        " name if not 4096, and with commas between users.",
    ),
)  # fmt: skip
