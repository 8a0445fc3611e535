"""A stock client at work while brokers fail: it writes numbers, does transactions and reads in a group, in a process of its own.

    python -m testing.clients.sequences CLIENT BOOTSTRAP PARTITIONS RATE TOPIC...

CLIENT is confluent-kafka, confluent-kafka-consumer (with the consumer protocol), kafka-python or aiokafka; `Sequences.java` does
the same with Java's client. Its name up to the second dash is the topic of its numbers 0, 1, 2, ..., with partition NUMBER %
PARTITIONS and about RATE of them in a second. Its transactions write CLIENT:T to `left`, and CLIENT:T and CLIENT:T+ to `right`;
each fifth one is aborted. Its group reads all TOPICs from their beginnings, and commits. Everything is acks=all, idempotent and
read_committed. It reports on stdout:

    acked NUMBER OFFSET
    failed NUMBER ERROR
    committed T, aborted T     the transaction has ended like this
    unknown T ERROR            its end is not known
    read TOPIC PARTITION OFFSET VALUE
    stored TOPIC PARTITION OFFSET    the group's offset is committed
    broken ROLE ERROR          a role has ended by an error

The line "stop" on stdin ends the writing, and the response is "stopped NUMBER", the count of numbers that were sent. The group
reads until each partition has the value "end". Then the line "last" makes the client read everything again, with a new consumer
without a group, as lines that begin with "last" in place of "read"; "done" is the last line. SIGUSR1 makes it write where its
threads are to stderr.

roles           writing, transactions and reading, for any client
confluent, kafka_python, aio  the clients
"""
