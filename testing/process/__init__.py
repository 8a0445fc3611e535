"""Real processes: a broker, Apache Kafka and its tools, Java with what Maven brings, interpreters with other packages.

broker                    a broker under test
several                   several brokers of `pybroker start --brokers N`
three_nodes               three nodes of Kafka's files, each a broker and a controller
kafka_peer                Apache Kafka as a broker
releases                  what old releases of Kafka accept and announce
etcd_peer                 etcd, one member or several
kafka_tools, tool_runner  Apache Kafka's command line tools: one run, or many in one JVM
go                        programs in Go
class_archive             an archive of classes, with which Spark's JVMs start quickly
kafka_archive             the same for Kafka's JVMs
java                      short runs with such an archive, and programs compiled once
our_commands              our own kafka-*.sh commands
maven, venvs              artifacts and packages that are downloaded once
bring                     downloads everything before the tests
procstat                  CPU time, memory and descriptors of processes
"""
