"""Quotas in front of the handlers: nothing while the cluster has no quota.

Modules, bottom up:
    mutations    the changes of partitions that CreateTopics, CreatePartitions and DeleteTopics want
    limited      puts counting and throttling in front of a handler, native or in Python (_limited_native, _limited_python)
"""
