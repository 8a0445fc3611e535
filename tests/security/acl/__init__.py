"""Unit tests of `pybroker.security.acl`."""
