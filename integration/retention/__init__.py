"""Retention and compaction, to the record, under readers and beside Apache Kafka. `retention_soak.py` is the soak of it."""
