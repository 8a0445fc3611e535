"""Kafka's configuration: one table behind parsing, checks and documentation."""
