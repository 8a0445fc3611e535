"""Unit tests of `pybroker.spark`."""
