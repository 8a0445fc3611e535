"""Unit tests of `pybroker.client`."""
