"""Counters as plain integers, and their Prometheus form."""
