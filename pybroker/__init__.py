"""A Kafka-compatible broker in asyncio Python."""

__version__ = "0.1.0"  # not Final: `typing` would double the import time of a command that a health check starts
