"""Compaction: of each key of a compacted topic the last record stays, older ones go, and tombstones when their time has come.

    cleanable     which part of a log may be cleaned, and how much it asks for it
    key_offsets   the last offset of each key in the part that was not cleaned yet
    transactions  whose records and markers may go
    rewrite       segments written anew without what may go
    replace       the new segments in the place of the old ones
    cleaner       which log is next, and how fast

Offsets never change, so readers and committed offsets stay right.

Source: LogCleaner, LogCleanerManager, Cleaner of Kafka; KIP-58, KIP-354, KIP-534.
"""
