"""Unit tests of `pybroker.purgatory`."""
