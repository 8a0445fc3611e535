"""Unit tests of `pybroker.coordinator.runtime`."""
