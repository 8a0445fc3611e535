"""Tests with real processes: the broker, stock clients, Apache Kafka and its tools."""
