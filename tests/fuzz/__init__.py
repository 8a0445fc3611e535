"""Fuzzers of all that reads bytes from outside."""
