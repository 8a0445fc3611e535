"""The durable log, in Kafka's format on disk; synchronous.

log, results              the log of one partition: its state, and what its methods take and return
end, _end_*, file_end     the end of a log and of its data file: the state that a usual append changes, and that append
append, append_rules, read, timestamp_lookup, truncate, flush    the operations of a log, a module each
retention, record_retention, retention_pass    what is due: whole segments, or to the record; a pass over many logs
segment, segments, segment_files, segment_reading, tail    the segments of a log, their files; how appends and reads use them
file_records, batch_scan  slices of a data file that responses send; walking over the headers of batches
entry_file, offset_index, time_index, transaction_index    the indexes of a segment
cold_lookup, aborted_lookup, index_rebuild                 lookups that wait for the disk or take long, in a thread
producer_state, producer_entry, producer_snapshot          what a log remembers of producers with an id
leader_epoch_cache        which leader epoch began at which offset
recovery, leftovers, partition_files, damage, lost, kept   opening a log after an unclean stop, and what cannot be saved
old_formats               data files of Kafka before 0.11: found, and rewritten in magic 2
old_messages              intact messages of Kafka before 0.11 in a data file: found, also behind damage
manager, loading, opening, room_pass    all logs of a broker, from the start to the stop
directory, claims, directory_moves, removals, strays       the log directories, and logs that come, move and go
checkpoint, offset_checkpoint, checkpoint_pass    the small files beside the data; what the logs have for them, in steps
passes                    what the broker does with all logs at intervals
room, reserves, open_files, filesystem  full volumes, descriptors, and the only access to the operating system's files
cleaner/                  compaction
names                     the names of data files
"""
