"""Unit tests of `pybroker.doctor`."""
