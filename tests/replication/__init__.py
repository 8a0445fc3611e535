"""Unit tests of `pybroker.replication`."""
