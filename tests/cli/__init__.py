"""Unit tests of `pybroker.cli`."""
