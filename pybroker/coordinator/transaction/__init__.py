"""Transactions: the state of transactional ids, and the end of their transactions.

    service         what the request handlers call: finds the shard of a transactional id and runs an operation there
    state           one transactional id and its transaction, with the table of its states; immutable
    shard           the transactional ids of one partition of `__transaction_state`, changed by replaying records
    operations      what clients do to a transactional id: pure functions of the shard and the time
    unattended      what a shard does without a client: it continues where the loaded log ends, and removes old ids
    listing         what administrators ask: one id by name, or all that pass filters
    ending          the end of transactions: what a prepared one needs, and the records that complete it
    markers         the one seam through which markers go to the partitions, in slices
    remote_markers  those for partitions that other brokers lead, as requests to them
    other_coordinators  asks the coordinator of an id on another broker
    marker_results  what the result of a marker means for its transaction
    forgetting      takes partitions that were removed out of the transactions that have them
    removed         the partitions that were removed, by topic
    lost            names transactions that a lost machine has brought back in part
    records         the records of `__transaction_state`, as bytes and back

They run on `coordinator/runtime/`. `docs/design/transactions.md` describes how they work together.
"""
