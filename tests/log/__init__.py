"""Unit tests of `pybroker.log`."""
