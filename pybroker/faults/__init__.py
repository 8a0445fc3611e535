"""Requests as tests look at them from outside of the broker's code.

about       the topics, partitions, groups and transactional ids that a request names
trail       the last requests of clients
"""
