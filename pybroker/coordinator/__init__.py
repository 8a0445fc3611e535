"""Groups and their committed offsets: state machines whose changes are records of an internal topic.

    service            what the request handlers call: finds a group's shard and runs an operation there
    shard              the groups and offsets of one partition of `__consumer_offsets`, changed by replaying records
    group              what all groups have in common, whatever their kind
    offsets            commits, fetches and deletions of offsets, for groups of every kind
    offset_loops, _offset_loops_*  the loops over a usual commit, and over a name; `_offset_loops_python` has the contract
    pending            the offsets of open transactions
    expiry             the removal of old offsets, and of groups that have nothing left
    administration     listing and deleting groups
    records            the records of offsets and of classic groups, as bytes and back
    topic              the internal topic of a coordinator: its leaders, and what this broker begins to lead
    hashing            the partition that a name belongs to
    loading            the replay of loaded batches, and what follows when a shard is loaded
    embedded_protocol  the metadata and the assignments that consumers of the classic protocol exchange

    runtime/        runs operations: appends their records, replays them, responds when they are durable; loads shards
    classic/        groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup
    consumer/       groups of the consumer protocol (KIP-848): ConsumerGroupHeartbeat
    transaction/    transactions: their states, timeouts and markers
    migration/      groups that change from one protocol to the other, and have members of both meanwhile

`docs/design/groups.md` describes how they work together.
"""
