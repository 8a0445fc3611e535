"""Quotas: what users, clients and addresses may use of the broker, and how long they wait when they use more.

Modules, bottom up:
    entity        the entities that quotas are about, and which values a quota may have
    quotas        all quotas of a cluster, and which of them holds for a request
    token_bucket  Kafka's bucket of tokens
    usage         the use by clients, and the throttle times that follow, native or in Python (_usage_native, _usage_python)
"""
