"""Unit tests of `pybroker.config`."""
