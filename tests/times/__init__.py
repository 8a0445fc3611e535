"""Unit tests of `pybroker.times`."""
