"""Unit tests of `pybroker.metadata`."""
