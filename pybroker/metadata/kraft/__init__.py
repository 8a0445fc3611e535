"""The metadata of a KRaft Kafka in `__cluster_metadata-0`: read when a directory is adopted, written when it is given back.

frames     the bytes of one record, and the record behind them
reading    the records of the newest snapshot and of the log after it
state      what the records amount to: topics, partitions, settings
writing    a snapshot out of records
cluster_records    the records that make a Kafka know a cluster
"""
