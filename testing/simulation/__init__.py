"""A disk, a metadata store, a clock and a loop that a test holds in its hand; what was not durable can be lost."""
