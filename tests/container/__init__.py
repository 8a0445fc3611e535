"""Unit tests of `pybroker.container`."""
