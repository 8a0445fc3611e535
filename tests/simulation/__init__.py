"""Tests of the simulated disk, store and clock themselves."""
