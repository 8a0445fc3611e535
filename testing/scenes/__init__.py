"""Parts of a broker as unit tests need them: real logs or models of them, manual clocks, and no sockets except in `network_toy`.

api                            a whole broker without sockets, and a broker with a controller alone
replication                    a replica manager on model logs
logs, compacted_log, compacted_logs, cut_log    logs, batches, and file systems that fail; compaction; retention to the record
cold_files                     a file system whose pages are in memory only when a test wants it
held_work, slices              long work, up to a yield or a slice at a time
data_directories               data directories for readers
record_lists, messages         random records and messages
fake_transport, late_part      a transport without a socket, and a late part of a response
network_toy                    a server on a socket with a toy handler
store_contract                 the promises of a metadata store
members                        brokers that a test has only as entries of the store
scripted_broker                brokers that are scripts, for tests of our client
no_wake_up                     a wake-up that never comes, for timers
"""
