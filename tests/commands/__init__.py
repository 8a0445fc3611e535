"""Unit tests of `pybroker.commands`."""
