"""The segments of a log: data files with their indexes, and slices of them that responses send.

segments           the segments of one log, in order of their base offsets
segment            one segment: append, roll, truncate, delete
segment_reading    finding a batch by the indexes, and past damage
segment_files      the names of a segment's files, and how they change
file_records       the data file, and slices of it without a copy
fetched_records    the result of a read
batch_scan         walking over the headers of batches
damage             which part of a data file is damaged, and where intact batches follow
index_rebuild      checking and rebuilding the indexes in a thread
"""
