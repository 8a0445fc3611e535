"""Unit tests of `pybroker.network`."""
