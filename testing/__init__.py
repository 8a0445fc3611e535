"""What tests, integration tests and benchmarks share. It imports `pybroker`, and nothing imports it but those three.

process      real processes: our broker, Apache Kafka, its tools, Java, Maven, environments of other clients
hosts        network namespaces, forwarded ports, a small disk, a container without an engine
containers   the engine, our images, compose
clients      stock clients, and members of groups as processes of their own
wire         requests byte by byte, and encoders that share no code with the broker
scenes       parts of a broker with real logs or models of them, for unit tests
simulation   a disk, a metadata store, a clock and a loop that a test holds in its hand
java         programs for Apache Kafka's own classes
samples      records to send and compare
places       where things of this checkout are
"""
