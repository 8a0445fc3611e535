"""The kinds of histories that are tried, by name."""

from __future__ import annotations

import errno
from typing import Final

from testing.simulation.faults import SHORT
from tests.crash.history import Plan

PLANS: Final = {
    "all": Plan(is_away=False),
    "records": Plan(
        is_away=False,
        kinds=frozenset({"create", "produce", "burst", "retry", "delete records", "rest", "long rest"}),
    ),
    "topics": Plan(
        is_away=False,
        kinds=frozenset({"create", "delete", "produce", "delete records", "long rest"}),
        legs=4,
    ),
    "compaction": Plan(
        is_away=False,
        kinds=frozenset({"create", "produce", "burst", "retry", "rest", "long rest"}),
        settings={"cleanup.policy": "compact", "segment.bytes": "250"},
    ),
    "retention": Plan(
        is_away=False,
        kinds=frozenset({"create", "produce", "burst", "retry", "delete records", "rest", "long rest"}),
        settings={
            "cleanup.policy": "delete",
            "retention.bytes": "300",
            "retention.granularity": "record",
            "segment.bytes": "1500",
        },
    ),
    "moves": Plan(is_away=False, kinds=frozenset({"create", "produce", "move", "rest", "long rest"})),
    "away": Plan(legs=5, share=0.03),
    "flush": Plan(is_away=False, settings={"flush.messages": "1"}),
    "EIO": Plan(is_away=False, fault=errno.EIO, share=0.03),
    "ENOSPC": Plan(is_away=False, fault=errno.ENOSPC, share=0.03),
    "EMFILE": Plan(
        is_away=False, fault=errno.EMFILE, fault_kinds=frozenset({"open", "create", "list", "sync_directory"}), share=0.03
    ),
    "short": Plan(is_away=False, fault=SHORT, share=0.03),
}
