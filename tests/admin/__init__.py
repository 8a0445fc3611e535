"""Unit tests of `pybroker.admin`."""
