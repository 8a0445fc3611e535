"""Unit tests of `pybroker.broker`."""
