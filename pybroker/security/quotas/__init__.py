"""Quotas: what users, clients and addresses may use of the broker, and how long they wait when they use more.

Modules, bottom up:
    entity       the entities that quotas are about, and which values a quota may have
    rate         the use in a window of time, as Kafka's Rate and TokenBucket count it
    quotas       all quotas of a cluster, and which of them holds for a request
    usage        the use by each client, and the throttle times that follow
"""
