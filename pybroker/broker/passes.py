"""The repeated passes over the logs: retention, checkpoints, flushes, expiry, removal, the check for room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.broker.periodic import Periodic
    from pybroker.clock import Clock
    from pybroker.config.broker import BrokerConfig
    from pybroker.log.manager import LogManager
    from pybroker.replication.replica_manager import ReplicaManager

SEALED_RELEASE_MS: Final = 300_000
ROOM_LOOK_MS: Final = 1_000
REMOVAL_LOOK_MS: Final = 1_000


def schedule_passes(
    periodic: Periodic,
    *,
    config: BrokerConfig,
    clock: Clock,
    logs: LogManager,
    replicas: ReplicaManager,
    on_room: Callable[[], None],
    later: Callable[[Callable[[], None]], object],
) -> None:
    """Schedule all passes.

    `on_room` is called when a directory has become full, or has room again; `later(work)` calls the next turn of a long pass.
    """
    every = periodic.every
    initial_ms = config.log_initial_task_delay_ms
    every(config.log_retention_check_interval_ms, lambda: logs.clean_up(clock.time_ms(), later), initial_ms)
    every(config.log_flush_offset_checkpoint_interval_ms, logs.checkpoint, initial_ms)
    every(config.log_flush_start_offset_checkpoint_interval_ms, logs.checkpoint_start_offsets, initial_ms)
    every(config.log_flush_scheduler_interval_ms, lambda: logs.flush_due(clock.time_ms()), initial_ms)
    every(config.replica_high_watermark_checkpoint_interval_ms, lambda: logs.write_high_watermarks(replicas.high_watermarks()))
    every(config.producer_id_expiration_check_interval_ms, lambda: logs.remove_expired_producers(clock.time_ms()))
    every(REMOVAL_LOOK_MS, lambda: logs.remove_due(clock.time_ms()))
    every(ROOM_LOOK_MS, lambda: logs.look_for_room(on_room))
    every(SEALED_RELEASE_MS, logs.release_sealed)
