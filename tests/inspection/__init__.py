"""Unit tests of `pybroker.inspection`."""
