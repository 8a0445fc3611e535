"""Unit tests of `pybroker.coordinator.classic`."""
