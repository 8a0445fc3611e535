"""Writes an archive back to topics: in the order of offsets, with times, headers, keys, nulls and partitions unchanged.

job     runs the replay: a task for each partition, which continues after a kill where the target's log ends
rows    reads the records of an archived partition from its files, in the order of their offsets
"""
