"""Transactions on a broker with a simulated disk and clock: a seed is a history, which `testing/transactions` checks.

connection  requests to the broker, until it ends
writer      a transactional producer, and what it does after errors and ends of the broker
pipeline    a writer that is a member of a group, and commits the group's offsets in its transactions
removals    a topic that is deleted and made again in the middle
readers     consumers with `read_committed`, and a watcher of the last stable offset
story       the lives of a broker with writers and readers, drawn from a seed
run         stories for a chosen time
"""
