"""The controllers of a cluster."""
