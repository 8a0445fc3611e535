"""Unit tests of `pybroker.api.access`."""
