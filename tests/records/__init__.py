"""Unit tests of `pybroker.records`."""
