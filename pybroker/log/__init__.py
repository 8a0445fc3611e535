"""The durable log, in Kafka's format on disk; synchronous.

Here is the log of one partition; its parts, and all logs of a broker, have folders of their own.

log                       a log with its operations as methods
append, append_rules, read, timestamp_lookup, truncate, flush, roll, deletion    these operations, a module each
log_state, flush_state    the state of a log, which the operations read and change
results                   what the operations take and return
end, _end_*               the end of a log: the state that a usual append changes, and that append
tail, _tail_*             the tail of a segment: when it rolls, which batches get index entries
file_end, _file_end_*     the data file as requests use it: what an append writes, and small slices
slices, _slices_*         what a fetch gets of a segment, from a batch on
cold_lookup, aborted_lookup    lookups that wait for the disk or take long, in a thread
leader_epoch_cache        which leader epoch began at which offset

segments/       data files with their indexes, and slices of them that responses send
indexes/        by offset, by time, of aborted transactions
producers/      what a log remembers of producers with an id
retention/      where a log begins
cleaner/        compaction
recovery/       opening a log after an unclean stop, and what cannot be saved
checkpoints/    the small files beside the data
directories/    the log directories, and the names of what lies in them
manager/        all logs of a broker, from the start to the stop, and their moves between directories
files/          the only access to the operating system's files: space, descriptors, names
"""
