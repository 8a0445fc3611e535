"""Directories of Apache Kafka become ours, and ours become Kafka's, also those that older releases have filled."""
