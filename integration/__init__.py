"""Tests with real processes: the broker, stock clients, Apache Kafka and its tools.

clients       stock clients, old and new, and requests like theirs
groups        groups of both protocols
transactions  transactions, Kafka Streams, loops that consume, transform and produce
security      clients that log in, and those that may not
network       the loop and its connections: requests, limits, memory, fairness, bad frames, long turns
security      listeners with TLS: stock clients, right and wrong certificates, slow handshakes, reload
cluster       several brokers as one cluster, some of which are killed or stopped
durability    what was acknowledged, after kills and with disks that are full or lost; the soak of everything
retention     retention and compaction, to the record; the soak of retention
tools         Kafka's own command line tools, and ours beside them
cli           our commands as processes, and the broker's start and stop
adoption      directories of Apache Kafka become ours, and ours become Kafka's
image         the files and the start command of the image, without a container engine but for one case
containers    the image and the compose file, with an engine; `make test` leaves them out
spark         the jobs and the data source, on a real Spark
conformance   our codec, settings, cleaner and files beside those of Apache Kafka and of other libraries
page          the page in a real browser: every action, and for everyone
testing_kit   the test kit: brokers that are processes, and the pytest plugin with stock clients
turns_report  the longest turns of the brokers, at the end of a run
"""
