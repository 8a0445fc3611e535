"""The use by each client, and the throttle times that follow: native where that part was built, else Python. Belongs to the loop.

Counts are kept for the CLIENTS_MAX that were there last: names of clients are the clients' own, so there may be very many. Those
that share a quota share its count, which lives as long as one of them is kept.

Times are in ms, of any clock that does not go back.

Source: ClientQuotaManager, ClientRequestQuotaManager and ControllerMutationQuotaManager of Kafka; Rate, SampledStat, WindowedSum;
QuotaUtils.throttleTime; KIP-13.
"""

from __future__ import annotations

from typing import Final

from pybroker.native import choose
from pybroker.security.quotas import _usage_python
from pybroker.security.quotas._usage_python import ClientUse, Mutations, Rate, Usage, Window

__all__ = ["IS_NATIVE", "ClientUse", "Mutations", "Rate", "Usage", "Window"]

IS_NATIVE: Final = choose(_usage_python, globals())
