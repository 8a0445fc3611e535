"""Groups and their committed offsets: state machines whose changes are records of an internal topic.

    service            what the request handlers call: finds a group's shard and runs an operation there
    loading            the replay of loaded batches, and what follows when a shard is loaded
    offsets            commits, fetches and deletions of offsets, for groups of every kind
    expiry             the removal of old offsets, and of groups that have nothing left
    administration     listing and deleting groups
    committed          the values of committed offsets
    offset_loops, _offset_loops_*  the loops over a usual commit, and over a name; `_offset_loops_python` has the contract
    embedded_protocol  the metadata and the assignments that consumers of the classic protocol exchange
    topic              the internal topic of a coordinator: its leaders, and what this broker begins to lead
    hashing            the partition that a name belongs to

    state/          the groups and offsets of one partition of `__consumer_offsets`, changed by replaying records
    classic/        what requests do to groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup
    consumer/       what they do to groups of the consumer protocol (KIP-848), and how groups change from one to the other
    transaction/    transactions: their states, timeouts and markers
    runtime/        runs operations: appends their records, replays them, responds when they are durable; loads shards

`docs/design/groups.md` describes how they work together.
"""
