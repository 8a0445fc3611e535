"""The counts of clients."""
