"""Unit tests of `pybroker.tools`."""
