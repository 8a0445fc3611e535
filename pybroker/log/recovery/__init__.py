"""Opening a log after an unclean stop, and what cannot be saved.

recovery           the steps of opening a log
partition_files    the first of them: finding the segments
derived            transaction indexes that are not as a clean stop has left them
leftovers          files in the middle of a deletion or a compaction
lost               naming and keeping what had to be given up
kept               reading what was kept
old_formats        data files of Kafka before 0.11: found, and rewritten in magic 2
old_messages       intact messages of Kafka before 0.11, also behind damage
"""
