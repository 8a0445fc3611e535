"""A replica manager on model logs, and replicas of a partition on several brokers.

scene       the manager, and a manual clock
replicas    the replicas of a partition on three brokers, with real logs
model_log   a log as a list of batch sizes
appended    appends, and waits until they are settled
loops       a switch between the twins of `replication.reading`
"""
