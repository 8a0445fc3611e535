"""The state of one partition of `__consumer_offsets`: its groups and offsets, which only the replay of records changes.

    shard              all of it, and how records become that state
    group              what all groups have in common, and what serves them; what requests bring
    classic_group      a group of the classic protocol, and its members
    consumer_group     a group of KIP-848
    consumer_member    a member of such a group
    pending            the offsets of open transactions
    records            records as bytes and back; those of offsets
    classic_records    the record of a classic group
    consumer_records   the records of KIP-848 groups
    consumer_replay    what the records of KIP-848 groups mean

The tables at the top of `classic_group` and `consumer_group` are the place to begin.
"""
