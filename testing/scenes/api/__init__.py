"""Brokers without sockets, for the tests of handlers.

whole    logs, replicas, groups and the dispatcher
cluster  the controller alone
groups   a whole broker with a group of one member
records  batches to send, and an independent reader
codes    the error codes in a response
"""
