"""Replicas of partitions on this broker: appends, reads, and the operations that wait.

replica_manager      the partitions of this broker, and the way of every append and fetch to them
partition            one replica: its leader, its high watermark, reading and writing within that
in_sync              the followers of a leader, and which of them are in sync
following            what a follower does with what its leader has responded
fetcher              how a follower copies its leaders' logs
peers                how a broker sends requests to other brokers
leading, _leading_*  what an append needs of the two: one text for both builds
own_partitions       the partitions of this broker, as the cluster's image has them
cold_lookups         the lookups of a fetch that a thread does
fetch_data           what the fetch handler and the replicas pass to each other
produce_data         what the replicas and the produce handler pass to each other
partition_data, _partition_data_*  what a fetch wants of one partition and what was read of it; one text for both builds
fetch_session        incremental fetch sessions
session_tracker      what a follower's usual requests read of its session
fetch_context        one fetch request in terms of sessions
fetching             one fetch: it reads, waits and reads again
delayed_fetch        a fetch that waits in its purgatory
delayed_produce      a produce request that waits, and the queues of its partitions
reading, _reading_*  the short ways to read usual partitions; its twins, of which `_reading_python` has the contract
failed_append        the result of an append that failed
refusals             one log line for all partitions that are offline for the same reason
"""
