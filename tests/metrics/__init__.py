"""Unit tests of `pybroker.metrics`."""
