"""Kafka's command line tools, with the verbs that compose files, init containers, health checks and READMEs use.

run, classes, install       which command a name means; commands by Java class; the scripts that start them
options, target, errors     the command line, the brokers that a command talks to, what ends a command early
connection, metadata        connects and waits, and reads Metadata without the codec, for health checks
admin                       requests through the codec, to any broker or a certain one, for the other commands of administrators
leaders                     offsets, asked of the leaders of partitions
topics, topics_admin        kafka-topics
configs, configs_admin      kafka-configs
configs_users               kafka-configs for quotas and credentials
acls                        kafka-acls
tokens                      kafka-delegation-tokens
elections                   kafka-leader-election
groups                      kafka-consumer-groups
groups_admin                requests about groups, to their coordinators, repeated while these are coming up
groups_describe             what kafka-consumer-groups prints of groups
groups_reset                resets and deletes committed offsets
offsets, versions, cluster, storage, ready      the smaller commands
producer, line_reader       kafka-console-producer
consumer, formatter         kafka-console-consumer
client_settings             a Java client's settings for librdkafka
kafka_apis, kafka_errors    the APIs and the errors of Kafka 3.9, as its tools print them

Health checks start one of these commands every few seconds, so what they start imports little: no `typing`, no `dataclasses`, no
codec before it is needed. A module that is slow to import, and not always needed, is imported inside a function.
`docs/design/tools.md` lists what is imported when, and what it costs.
"""
