"""Writes an archive back to topics: in the order of offsets, with times, headers, keys, nulls and partitions unchanged."""
