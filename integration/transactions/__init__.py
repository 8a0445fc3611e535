"""Transactions of stock clients, Kafka Streams, loops and histories with kills."""
