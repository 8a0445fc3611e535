"""Brokers without sockets, for the tests of handlers."""
