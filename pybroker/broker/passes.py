"""The repeated passes over the logs: retention, checkpoints, flushes, expiry, removal, the check for room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.broker.periodic import Periodic
    from pybroker.clock import Clock
    from pybroker.config.broker import BrokerConfig
    from pybroker.log.manager.manager import LogManager
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
) -> None:
    """Schedule all passes. `on_room` is called when a directory has become full, or has room again."""
    every, passes = periodic.every, logs.passes
    initial_ms = config.log_initial_task_delay_ms
    every(config.log_retention_check_interval_ms, lambda: passes.clean_up(clock.time_ms()), initial_ms)
    every(config.log_flush_offset_checkpoint_interval_ms, passes.checkpoint, initial_ms)
    every(config.log_flush_start_offset_checkpoint_interval_ms, passes.checkpoint_start_offsets, initial_ms)
    # `flush.ms` is a promise from the start on, so its first pass does not wait any longer than the others.
    flush_look_ms = config.log_flush_scheduler_interval_ms
    every(flush_look_ms, lambda: passes.flush_due(clock.monotonic_ms()), min(flush_look_ms, initial_ms))
    every(
        config.replica_high_watermark_checkpoint_interval_ms, lambda: passes.write_high_watermarks(replicas.known_high_watermark)
    )
    every(config.producer_id_expiration_check_interval_ms, lambda: passes.remove_expired_producers(clock.time_ms()))
    every(REMOVAL_LOOK_MS, lambda: logs.remove_due(clock.monotonic_ms()))
    every(ROOM_LOOK_MS, lambda: passes.look_for_room(on_room))
    every(SEALED_RELEASE_MS, passes.release_sealed)
