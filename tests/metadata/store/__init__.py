"""Unit tests of `pybroker.metadata.store`."""
