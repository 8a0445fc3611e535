"""Unit tests of `pybroker.turns`."""
