"""An interval is measured by the monotonic clock; only these modules read the wall clock, each for a reason.

`docs/design/clocks.md` has the rule, and what each clock is used for.
"""

from __future__ import annotations

import ast

from tests.tidy.sources import nodes, relative, sources, tree

STORED = "it goes into records or files, or is compared with what they have"
TOOL = "a command or a job, which shows the time of day or compares it with that of records"
WALL: dict[str, str] = {
    "pybroker/_clock_python.py": "it is the clock",
    "pybroker/api/produce/_one_partition_python.py": STORED,
    "pybroker/api/context.py": "people see when a client was there",
    "pybroker/security/sasl/login.py": "the end of a token comes from outside",
    "pybroker/api/handlers/create_delegation_token.py": STORED,
    "pybroker/api/handlers/renew_delegation_token.py": STORED,
    "pybroker/api/handlers/expire_delegation_token.py": STORED,
    "pybroker/broker/token_expiry.py": "tokens have the times at which they expire",
    "pybroker/security/sasl/bearer_tokens.py": "the times of a token come from outside",
    "pybroker/api/handlers/describe_quorum.py": "a response shows the time",
    "pybroker/broker/gauges.py": STORED,
    "pybroker/broker/joining.py": STORED,
    "pybroker/adoption/leaving.py": STORED,
    "pybroker/broker/passes.py": "retention and the expiry of producers compare with the timestamps of records",
    "pybroker/coordinator/runtime/appender.py": STORED,
    "pybroker/coordinator/runtime/runtime.py": "operations get the time for their records; their timers get intervals",
    "pybroker/coordinator/transaction/markers.py": STORED,
    "pybroker/coordinator/transaction/service.py": "a list shows for how long transactions have been open, by their records",
    "pybroker/log/cleaner/cleaner.py": "the lags of compaction compare with the timestamps of records",
    "pybroker/log/cleaner/cleaning.py": "the times of tombstones are in their batches",
    "pybroker/log/cleaner/head.py": "a new segment has the time of its file",
    "pybroker/log/manager/directory_moves.py": "a new segment has the time of its file",
    "pybroker/log/log.py": "a new segment has the time of its file",
    "pybroker/log/recovery/recovery.py": "producers expire by the timestamps of their batches",
    "pybroker/log/timestamp_lookup.py": "the times of segments are those of their files",
    "pybroker/security/tls/certificates.py": "a certificate has the times between which it holds",
    "pybroker/admin/verbs/clock.py": "a test sees the time of its broker",
    "pybroker/times/clock.py": "as above",
    "pybroker/testing/remote.py": "as above",
    "pybroker/testing/clock.py": "a test gives records the time of its broker",
    "pybroker/times/lanes.py": "it is the clock of a broker whose time a test moves",
    "pybroker/admin/verbs/records.py": "as below",
    "pybroker/admin/records.py": "records that a test writes have the time at which it does",
    "pybroker/log/truncate.py": "a new segment has the time of its file",
    "pybroker/api/produce/appends.py": STORED,
    "pybroker/cli/spark_generate.py": TOOL,
    "pybroker/terminal/numbers.py": TOOL,
    "pybroker/tools/groups_reset.py": TOOL,
    "pybroker/spark/audit/incremental.py": TOOL,
    "pybroker/spark/audit/job.py": TOOL,
    "pybroker/spark/audit/tags.py": TOOL,
    "pybroker/spark/audit/trail.py": TOOL,
    "pybroker/spark/generate.py": TOOL,
    "pybroker/spark/replay/job.py": TOOL,
    "pybroker/spark/report/job.py": TOOL,
}
READERS = {"time_ms", "time.time", "time.time_ns", "now", "utcnow", "today"}


def reads_wall_clock(module: ast.Module) -> bool:
    """Return whether a module uses an attribute that is the wall clock: of a `Clock`, of `time`, or of `datetime`."""
    for node in nodes(module):
        if isinstance(node, ast.Attribute):
            owner = f"{node.value.id}." if isinstance(node.value, ast.Name) and node.value.id == "time" else ""
            if owner + node.attr in READERS:
                return True
        elif (
            isinstance(node, ast.ImportFrom) and node.module == "time" and {"time", "time_ns"} & {one.name for one in node.names}
        ):
            return True
    return False


def test_the_wall_clock_is_read_where_there_is_a_reason() -> None:
    found = {relative(path) for path in sources(".py", folders=("pybroker",)) if reads_wall_clock(tree(path))}
    assert sorted(found - WALL.keys()) == [], "measure the interval by `monotonic_ms`, or add the module with its reason"
    assert sorted(WALL.keys() - found) == [], "these do not read it any more"
