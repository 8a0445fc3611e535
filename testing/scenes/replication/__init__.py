"""A replica manager on model logs.

scene       the manager, and a manual clock
model_log   a log as a list of batch sizes
appended    appends, and waits until they are settled
loops       a switch between the twins of `replication.reading`
"""
