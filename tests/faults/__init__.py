"""The checker of runs with faults."""
