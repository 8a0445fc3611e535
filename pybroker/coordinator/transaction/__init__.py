"""Transactions: the state of transactional ids, and the end of their transactions.

    service     what the request handlers call: finds the shard of a transactional id and runs an operation there
    state       one transactional id and its transaction, with the table of its states; immutable
    shard       the transactional ids of one partition of `__transaction_state`, changed by replaying records
    operations  what clients and timers do to a transactional id: pure functions of the shard and the time
    listing     what administrators ask: one id by name, or all that pass filters
    ending      the end of transactions: what a prepared one needs, and the records that complete it
    markers     the one seam through which markers go to the partitions, in slices
    lost        names transactions that a lost machine has brought back in part
    records     the records of `__transaction_state`, as bytes and back

They run on `coordinator/runtime/`. `docs/design/transactions.md` says how they work together.
"""
