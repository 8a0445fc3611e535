"""Unit tests of `pybroker.api`."""
