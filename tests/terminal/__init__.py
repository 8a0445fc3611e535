"""Unit tests of `pybroker.terminal`."""
