"""Unit tests of `pybroker.coordinator.consumer`."""
