"""Unit tests of `pybroker.sharing.turns`."""
