"""Unit tests of `pybroker.coordinator.transaction`."""
