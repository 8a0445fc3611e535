"""Unit tests of `pybroker.pipeline`."""
