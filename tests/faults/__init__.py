"""Faults: the rules and the trail of requests, and the checker of runs with faults."""
