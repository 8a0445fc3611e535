"""Faults of a cluster of real processes while stock clients work, and a proof from what the clients saw.

clusters  three brokers of `--brokers 3`, or with etcd
network   three brokers and etcd, each a host of its own
faults    what fails, in an order that a seed draws
cuts      links that fail
clients   the clients' processes, and what they have reported so far
checker   what must be true of all that the clients saw
replicas  the logs of all replicas, as bytes and as Kafka's DumpLogSegments sees them
run       a whole run
"""
