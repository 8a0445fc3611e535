"""The support code of tests, integration tests and benchmarks. It imports `pybroker`; only those three import it.

process      real processes: our broker, Apache Kafka, its tools, Java, Maven, environments of other clients
hosts        network namespaces, forwarded ports, a small disk, a container without an engine
containers   the engine, our images, compose
browser      a real browser, for the page
clients      stock clients, and members of groups as processes of their own
hostile      attacks on a listener with logins and on one with TLS, and their judge
wire         requests byte by byte, and encoders that share no code with the broker
scenes       parts of a broker with real logs or models of them, for unit tests
faults       faults of a cluster of real processes while stock clients work, and a proof from what these saw
transactions  a history of transactions, and what must be true of it
simulation   a disk, a metadata store, a clock and a loop that a test controls
java         programs for Apache Kafka's own classes
samples      records to send and compare
waiting      waits with a limit and a name
error_codes  Kafka's error codes by number
up_convert   the conversion of old message sets, whole
turns        work under the broker's watchdog
slowness     how much slower than a quiet machine this one is now
holds        how long a thread keeps the interpreter
garbage      quick garbage collections in a test process
cases        many cases of one property in one test
slowest      a plugin of pytest that prints what takes most processor time
native_parts  native parts that are older than their sources
places       the paths of this checkout
"""
