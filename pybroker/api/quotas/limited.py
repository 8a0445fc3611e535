"""Puts quotas in front of a handler: counts what a request uses, and throttles its client.

The route of an API gets a handler that counts, as long as the cluster has any quota. A client above its quota gets its response
at once, with the throttle time in it, and the broker takes no request from its connection until that has passed (KIP-219).

What is counted
    Produce: the bytes of the records. Fetch: the bytes of the records in the response; a response that exceeds the quota is not
    sent, but an empty one. CreateTopics, CreatePartitions and DeleteTopics: partitions. All: the time of the loop that the
    handler takes before it waits.

Exempt
    Requests of other brokers, and the exchange of a login.

Source: KafkaApis, RequestHandlerHelper, ClientQuotaManager, ClientRequestQuotaManager of Kafka; KIP-13, KIP-124,
KIP-219, KIP-599.
"""

from __future__ import annotations

from typing import Final

from pybroker.api.quotas import _limited_python
from pybroker.api.quotas._limited_python import counted_again, limited
from pybroker.native import choose

__all__ = ["IS_NATIVE", "counted_again", "limited"]

IS_NATIVE: Final = choose(_limited_python, globals())
