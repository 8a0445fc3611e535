"""Runs the operations of a coordinator, whose state is kept in the partitions of an internal topic.

    result   what an operation returns: records, a response, timers
    runtime  carries a result out: appends the records, replays them, responds when they are durable
    active   a shard that is here, and what belongs to it
    appender  appends records and waits until they are durable
    gathering  puts the records of operations that come in one turn of the loop into one batch
    gathered  what a shard has gathered in a turn
    once     the outcome of an operation, of which only the first counts; the code and the line of an unexpected failure
    replaying    appends a batch, and replays it in slices
    countdown    a callback after several others
    loader   fills shards from their logs

Nothing here knows groups: the shard, the form of its records and their replay are given from outside.
"""
