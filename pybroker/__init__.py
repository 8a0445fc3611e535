"""A Kafka-compatible broker in asyncio Python."""

from typing import Final

__version__: Final = "0.1.0"
