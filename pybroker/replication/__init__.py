"""Partitions and what is asked of them: appends, reads, and the operations that wait."""
