"""Unit tests of `pybroker.coordinator`."""
