"""A Kafka-compatible broker in asyncio Python."""

__version__ = "0.2.0"  # not Final: `typing` would double the import time of a command that a health check starts
