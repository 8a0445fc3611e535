"""Unit tests of `pybroker.protocol`."""
