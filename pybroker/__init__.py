"""A Kafka-compatible broker in asyncio Python."""

__version__ = "0.1.0"  # not Final: `typing` costs a command that a health check starts as much as all else that it imports
