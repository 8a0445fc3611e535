"""Moves logs between the data directories of one broker while they are written and read (KIP-113).

Idea
    A second log of the partition, its future log, is filled in the other directory from the present log, piece by
    piece, as a follower would do it. When it has everything and that is durable, it takes the present log's place
    within one step of the loop, in which nothing is appended.

Names and crashes
    The future log is in `<topic>-<partition>.<32 hex digits>-future`. So a future log beside a present log is
    unfinished: after a crash it is thrown away, and the move begins again. The last steps are:
        1. the target's checkpoints get the start of the future log, in the thread of that directory, and again while
           records are deleted meanwhile
        2. in one turn of the loop the future's directory gets the partition's name, and its log the partition's
           requests; nothing waits for the disk
        3. a flush makes the moved log and its name durable; only then are the files at the old place given up
    If a crash leaves two logs, they are the same log, to which the moved one may have added records: the start takes
    the longer one (`loading`). Records that were durable at the old place are there until they are durable at the new
    one. A future log alone is from a version that renamed the present directory first.

Compaction
    The cleaner leaves a log alone from the begin of its move to the end. Otherwise it would remove a tombstone from the present
    log while the future log has a copy of the old value. After the move the log counts as not cleaned.

What fails
    The present log is removed last. So a failure in the other directory before step 2 leaves the present log as it is,
    and only the other directory goes offline. If the other directory fails in step 3, the partition is offline until
    the next start, which finds the log at its old place.

Cost
    At most PIECE_BYTES are copied in one turn of the loop for all moves together, then other work has its turn. The thread of the
    present directory first reads the bytes that the page cache lacks. Step 2 opens the log again, which takes longer the more
    segments and producers it has.

Source: ReplicaAlterLogDirsThread, LogManager.replaceCurrentWithFutureLog, abortAndPauseCleaning; KIP-113.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pybroker.log.manager import checkpoint_pass
from pybroker.model import NO_OFFSET, Offset
from pybroker.protocol.error_codes import KafkaError
from pybroker.sharing.work import in_thread

if TYPE_CHECKING:
    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.log import Log
    from pybroker.log.manager.manager import LogManager
    from pybroker.model import TopicPartition
    from pybroker.sharing.work import Work

logger = logging.getLogger(__name__)

PIECE_BYTES: Final = 1 << 20


class _Move:
    """One log that is being moved.

    Attributes:
        synced_size: the future log's size when it was last known to be durable; -1: never.
        stored_start: the log start offset that the checkpoint of the target has; -1: none.
        is_storing: the checkpoint is being written.
        is_reading: the next piece is being read into the page cache.
        read_from: the offset of that piece.
        is_looked_up, is_read: a thread has looked for the place of that piece, and has read its bytes.
    """

    __slots__ = (
        "future",
        "is_looked_up",
        "is_read",
        "is_reading",
        "is_storing",
        "read_from",
        "stored_start",
        "synced_size",
        "synced_upto",
    )

    def __init__(self, future: Log) -> None:
        self.future = future
        self.synced_size = self.stored_start = -1
        self.synced_upto = 0
        self.is_storing = self.is_reading = False
        self.read_from = NO_OFFSET
        self.is_looked_up = self.is_read = False


class DirectoryMoves:
    """The moves that are running. Belongs to the loop.

    `later` runs a function after other work had its turn; `on_moved` is called with a partition and its new log.
    """

    __slots__ = ("_later", "_logs", "_moves", "_on_moved", "_turn_is_set", "_unsettled")

    def __init__(
        self,
        logs: LogManager,
        *,
        later: Callable[[Callable[[], None]], object],
        on_moved: Callable[[TopicPartition, Log], None],
    ) -> None:
        self._logs = logs
        self._later = later
        self._on_moved = on_moved
        self._moves: dict[TopicPartition, _Move] = {}
        self._unsettled: dict[TopicPartition, tuple[Log, Offset]] = {}  # moved logs, and the end up to which they must be durable
        self._turn_is_set = False

    def resume(self) -> None:
        """Start the moves again that the last run left unfinished."""
        for tp, directory in self._logs.take_interrupted_moves().items():
            if self._logs.get(tp) is not None and not directory.is_offline:
                try:
                    self.start(tp, directory)
                except KafkaError as error:
                    logger.warning("The move of %s stops: %s", tp, error)

    def future(self, tp: TopicPartition) -> Log | None:
        """Return the log that will be the partition's; None if it is not being moved."""
        move = self._moves.get(tp)
        return None if move is None else move.future

    def start(self, tp: TopicPartition, directory: LogDirectory) -> None:
        """Have the partition's log moved to `directory`; a move to another directory is cancelled. Raises KafkaError."""
        present = self._logs.get(tp)
        assert present is not None, tp
        under_way = self.future(tp)
        if under_way is not None and under_way.log_directory is directory:
            return
        self.cancel(tp)
        if present.log_directory is directory:
            return
        self._moves[tp] = _Move(self._logs.create_future(present, directory))
        present.is_moving = True
        logger.info("Moving %s from %s to %s", tp, present.log_directory.path, directory.path)
        self._set_turn()

    def cancel(self, tp: TopicPartition) -> None:
        """Cancel the partition's move, if there is one. A future log that cannot be removed now is removed later."""
        move = self._moves.pop(tp, None)
        if move is not None:
            checkpoint_pass.forget(move.future)
            if (present := self._logs.get(tp)) is not None:
                present.is_moving = False
            try:
                self._logs.drop_future(move.future)
            except KafkaError as error:
                logger.warning("%s cannot be removed yet: %s", move.future.path, error)

    def release(self) -> None:
        """Release all files, because the broker stops. The moves begin again at its next start."""
        for move in self._moves.values():
            move.future.release()
        self._moves.clear()
        self._unsettled.clear()

    def _set_turn(self) -> None:
        if (self._moves or self._unsettled) and not self._turn_is_set:
            self._turn_is_set = True
            self._later(self._turn)

    def _turn(self) -> None:
        self._turn_is_set = False
        for tp, (moved, upto) in list(self._unsettled.items()):
            self._settle(tp, moved, upto)
        bytes_left = PIECE_BYTES
        for tp, move in list(self._moves.items()):
            try:
                bytes_left -= self._advance(tp, move, bytes_left)
            except KafkaError as error:
                logger.warning("The move of %s is cancelled: %s", tp, error)
                self.cancel(tp)
            except Exception:  # an error of one log; the others are moved
                logger.exception("The move of %s is cancelled", tp)
                self.cancel(tp)
            if bytes_left <= 0:
                if tp in self._moves:
                    self._moves[tp] = self._moves.pop(tp)  # the other moves come first next time
                break
        self._set_turn()

    def _advance(self, tp: TopicPartition, move: _Move, bytes_max: int) -> int:
        """Copy a piece, or make what was copied durable, or finish. Returns the bytes copied. Raises KafkaError."""
        present, future = self._logs.get(tp), move.future
        if present is None or present.log_directory.is_offline or future.log_directory.is_offline:
            self.cancel(tp)
            return 0
        if future.log_end_offset < present.log_end_offset or future.log_end_offset < present.log_start_offset:
            return self._copy(move, present, bytes_max)
        if move.synced_size < 0 or future.size - move.synced_size > PIECE_BYTES:
            move.synced_size, move.synced_upto = future.size, future.log_end_offset
            future.flush()
        elif future.recovery_point < move.synced_upto:
            future.flush()  # does nothing while a flush runs; tries again after one that found no descriptor
        elif move.stored_start != present.log_start_offset:
            if not move.is_storing:
                move.is_storing = True
                self._logs.passes.begin(f"move of {tp}", self._store_start(move, present))
        elif not move.is_storing and tp not in self._unsettled:
            self._serve_from(tp, move, present)
        return 0

    def _copy(self, move: _Move, present: Log, bytes_max: int) -> int:
        """Copy a piece, if the page cache has it; otherwise let a thread read it first. Returns the bytes copied."""
        future = move.future
        offset = max(future.log_end_offset, present.log_start_offset)
        if move.is_reading:
            return 0
        if offset == present.log_end_offset:
            future.truncate_fully_and_start_at(offset)
            return 0
        if move.read_from != offset:
            move.read_from, move.is_looked_up, move.is_read = offset, False, False
        if not move.is_looked_up:
            move.is_looked_up = True
            if (lookup := present.cold_lookup(offset)) is not None:
                _read_first(move, present, lookup)
                return 0
        read = present.read(offset, bytes_max=bytes_max, upper_offset=present.log_end_offset, min_one_batch=True)
        if isinstance(read.records, bytes):  # compaction has removed everything after it
            future.skip_to(present.log_end_offset)
            return 0
        try:
            if not move.is_read and (cold := read.records.cold()) is not None:
                move.is_read = True
                _read_first(move, present, cold)
                return 0
            data = memoryview(bytes(read.records.read(0, read.size)))
        finally:
            read.records.close()
        if offset > future.log_end_offset:
            # The present log has these records no more: begin again where the log, or the batch with its first record,
            # begins.
            future.truncate_fully_and_start_at(Offset(min(offset, int.from_bytes(data[:8], signed=True))))
        future.append_as_follower(data, present.services.clock.time_ms())
        return len(data)

    def _store_start(self, move: _Move, present: Log) -> Work[None]:
        """Write the checkpoints of the target with the future log in them."""
        directory, future, start = move.future.log_directory, move.future, present.log_start_offset
        try:
            future.log_start_offset = max(future.log_start_offset, start)
            write = yield from checkpoint_pass.both(directory, self._logs.all_logs, future=future)
            yield from in_thread(directory.run_in_thread, write)
            move.stored_start = start
        except OSError as error:
            directory.fail(error)
        finally:
            move.is_storing = False
            if present.topic_partition not in self._moves:  # it was cancelled meanwhile
                checkpoint_pass.forget(future)

    def _serve_from(self, tp: TopicPartition, move: _Move, present: Log) -> None:
        """Let the moved log serve. Raises KafkaError."""
        moved = self._logs.replace(present, move.future)
        checkpoint_pass.forget(move.future)
        del self._moves[tp]
        self._unsettled[tp] = moved, moved.log_end_offset
        moved.is_moving = True
        self._on_moved(tp, moved)
        moved.flush()

    def _settle(self, tp: TopicPartition, moved: Log, upto: Offset) -> None:
        """Give up the old place if the moved log is durable. Without its directory, both places are left to the next start."""
        is_gone = self._logs.get(tp) is not moved or moved.log_directory.is_offline
        if not is_gone and (moved.flush_state.is_due or moved.safe_recovery_point < upto):
            moved.flush()
            return
        del self._unsettled[tp]
        moved.is_moving = tp in self._moves
        if not is_gone:
            self._logs.leave_place(tp)
            logger.info("Moved %s to %s: %d bytes", tp, moved.log_directory.path, moved.size)


def _read_first(move: _Move, present: Log, read: Callable[[], None]) -> None:
    """Have a thread read what the next piece needs."""
    move.is_reading = True

    def done(error: OSError | None) -> None:
        move.is_reading = False
        present.log_directory.note_failure(error)

    present.log_directory.run_in_thread(read, done)
