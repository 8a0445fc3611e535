"""Kafka's configuration: one table behind parsing, checks and documentation.

setting              a row of the table: name, type, default, description, check; ConfigError
table                all rows for brokers, and the families of names that are only accepted
server_settings, log_settings, group_settings      the rows for brokers, by subject
sasl_settings        the rows for logins
acl_settings         the rows for authorization
token_settings       the rows for delegation tokens
tls_settings         the rows for TLS
quota_settings       the rows for quotas
topic_settings       the rows for topics, and the broker properties that are their defaults
unread_settings      Kafka's other properties, which are accepted and which only DescribeConfigs shows
group_configs        settings of single groups
dynamic              settings that change while the broker runs; those of client metrics

load                 joins all sources of a broker's configuration
properties           the syntax of Java's .properties files
providers            values that properties take from files and the environment
environment          `KAFKA_*` variables
broker               BrokerConfig: one typed attribute for each property
checks               properties that must fit each other
topic                TopicConfig: a topic's own settings over the broker's
http_listeners       the syntax of `metrics.listener` and `pybroker.admin.listener`
listeners            the syntax of `listeners` and of the properties that belong to it
listener_settings    settings that a single listener has for itself
hosts                looks up host names in settings

document             writes docs/configuration.md and config/server.properties
"""
