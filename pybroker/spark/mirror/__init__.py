"""Copies topics from one cluster to another, batch by batch as they lie in the log.

job         runs the mirror: a task for each partition, in Spark or in threads
topics      chooses the topics, creates their copies, and checks those that exist
partition   copies a partition
outgoing    makes batches of the source ready for the target
offset_map  keeps where each offset of the source went in the target
state       the folder of a mirror
"""
