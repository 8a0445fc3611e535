"""The durable log, in Kafka's format on disk; synchronous.

Here is the log of one partition; its parts, and all logs of a broker, have folders of their own.

log, results              the state of a log, and what its methods take and return
append, append_rules, read, timestamp_lookup, truncate, flush    the operations of a log, a module each
end, _end_*               the end of a log: the state that a usual append changes, and that append
tail, _tail_*             the tail of a segment: when it rolls, which batches get index entries
file_end, _file_end_*     the end of a data file, which an append writes
cold_lookup, aborted_lookup    lookups that wait for the disk or take long, in a thread
leader_epoch_cache        which leader epoch began at which offset

segments/       data files with their indexes, and slices of them that responses send
indexes/        by offset, by time, of aborted transactions
producers/      what a log remembers of producers with an id
retention/      where a log begins, by time and by size
cleaner/        compaction
recovery/       opening a log after an unclean stop, and what cannot be saved
checkpoints/    the small files beside the data
directories/    the log directories, and logs that come, move and go
manager/        all logs of a broker, from the start to the stop
files/          the only access to the operating system's files: space, descriptors, names
"""
