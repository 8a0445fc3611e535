"""Compaction: the last record of each key of a compacted topic stays, older ones are removed, and tombstones after their
time.

    cleanable     which part of a log may be cleaned, and how urgent that is
    key_offsets   the last offset of each key in the part that was not cleaned yet
    transactions  the transactions whose records and markers may be removed
    chunks        reads batches and their records
    rewrite       writes segments again without the removed records
    replace       puts the new segments in the place of the old ones
    head          gives back the space of records below the log start offset
    cleaning      one cleaning, from the keys to the new segments
    throttle      how fast all cleanings may read and write
    worker        one cleaner thread
    progress      how far each log is cleaned
    cleaner       which logs are next, and how many at once

Offsets never change, so readers and committed offsets stay right.

Source: LogCleaner, LogCleanerManager, Cleaner of Kafka; KIP-58, KIP-354, KIP-534.
"""
