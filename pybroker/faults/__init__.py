"""Faults that tests ask for, and requests as tests look at them, from outside of the broker's code.

faults      lets requests go wrong by rules
rule        one rule: which requests, and what becomes of them
parts       the parts of a broker that rules change
disks       slow and full disks, and directories that fail
triggers    changes of the state of a broker that a request triggers
groups      those of groups
documents   files of JSON or YAML
about       the topics, partitions, groups and transactional ids that a request names
trail       the last requests of clients
"""
