"""Reads the files of a log without a broker: prints them, and finds what is wrong in them.

Nothing here opens a file for writing, so it may read the files of a broker that runs. The files may be ours or those of
Apache Kafka 0.8 to 4.x, and they may hold anything: damage is reported, and memory stays bounded.

data_file, places         reading a file through a window; what a path is
batches, search           the batches of a data file, of every magic; where they continue after damage
contents, entries         the records of a batch; the entries of indexes, snapshots and checkpoints
findings                  what is wrong, and what was checked
dump, lines, text         `pybroker log dump`: objects, one for each line; their text; the text of bytes
decode, message_json      the records of `__consumer_offsets`, `__transaction_state` and `__cluster_metadata`; messages as JSON
verify, verify_segment, verify_index, verify_producers, verify_aborts, verify_small    `pybroker log verify`: directories,
                          segments, indexes, snapshots of producers and aborted transactions beside the batches, small files
"""
