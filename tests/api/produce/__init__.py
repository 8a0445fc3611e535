"""Unit tests of `pybroker.api.produce`."""
