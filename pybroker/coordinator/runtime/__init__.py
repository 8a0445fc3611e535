"""Runs the operations of a coordinator, whose state is kept in the partitions of an internal topic.

    result   what an operation returns: records, a response, timers
    runtime  carries a result out: appends the records, replays them, responds when they are durable
    loader   fills shards from their logs

Nothing here knows groups: the shard, the form of its records and their replay are given from outside.
"""
