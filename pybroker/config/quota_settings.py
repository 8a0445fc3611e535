"""The table of broker properties, part six: quotas.

Source: QuotaConfig of Kafka.
"""

from __future__ import annotations

from typing import Final

from pybroker.config.setting import Kind, Setting, at_least

QUOTA_SETTINGS: Final = (
    Setting(
        "quota.window.num", Kind.INT, 11,
        "The number of windows over which the use of bytes and of time by a client is averaged.", at_least(1),
    ),
    Setting("quota.window.size.seconds", Kind.INT, 1, "The length of each of these windows, in s.", at_least(1)),
    Setting(
        "controller.quota.window.num", Kind.INT, 11,
        "The number of windows in which a client may use its changes of partitions at once.", at_least(1),
    ),
    Setting("controller.quota.window.size.seconds", Kind.INT, 1, "The length of each of these windows, in s.", at_least(1)),
)  # fmt: skip
