"""DescribeCluster (key 60): the brokers, or the controllers, without topics."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Int8, Int16, Int32


class DescribeClusterRequest(Request, api_key=ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+"):
    """Whether to list brokers or controllers."""

    include_cluster_authorized_operations: Bool = field()
    endpoint_type: Int8 = field("1+", default=1)  # 1: brokers, 2: controllers
    include_fenced_brokers: Bool = field("2+")


class DescribeClusterBroker(Struct):
    """A broker by its address."""

    broker_id: Int32 = field()
    host: str = field()
    port: Int32 = field()
    rack: str | None = field(default=None)
    is_fenced: Bool = field("2+")


class DescribeClusterResponse(Response, api_key=ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+"):
    """The cluster as this broker sees it."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)
    endpoint_type: Int8 = field("1+", default=1)
    cluster_id: str = field()
    controller_id: Int32 = field(default=-1)
    brokers: list[DescribeClusterBroker] = field()
    cluster_authorized_operations: Int32 = field(default=-2147483648)  # a bit field; the default: was not requested
