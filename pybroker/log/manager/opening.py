"""Opens many logs: one after the other after a clean stop, in threads if they must be recovered.

Recovery reads and checks data, that is, it waits for the disk and computes checksums: both let other threads run. So
each directory has `num.recovery.threads.per.data.dir` threads, and all directories are worked on at once, because
each is a disk of its own. Logs share no state, and nothing else runs meanwhile. After a clean stop hardly anything is
read, and threads would only cost.

Source: LogManager.loadLogs.
"""

from __future__ import annotations

import logging
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.log import Log

logger = logging.getLogger(__name__)

PROGRESS_S: Final = 5.0


def open_logs(
    work: Mapping[LogDirectory, Sequence[Callable[[], Log]]], *, threads_per_directory: int
) -> dict[LogDirectory, list[Log | Exception]]:
    """Run the functions that open each directory's logs. Returns their logs or errors, in the same order. Blocks.

    Logs every few seconds how far a recovery has come.
    """
    outcomes: dict[LogDirectory, list[Log | Exception]] = {}
    with ExitStack() as pools:
        futures: dict[LogDirectory, list[Future[Log | Exception]]] = {}
        for directory, openers in work.items():
            if openers and not directory.was_clean and directory.filesystem.is_concurrent:
                name = f"recover-{len(futures)}"
                pool = pools.enter_context(ThreadPoolExecutor(threads_per_directory, thread_name_prefix=name))
                futures[directory] = [pool.submit(_outcome, opener) for opener in openers]
        for directory, openers in work.items():
            if directory not in futures:
                outcomes[directory] = [_outcome(opener) for opener in openers]
        _wait(futures)
        for directory, of_directory in futures.items():
            outcomes[directory] = [future.result() for future in of_directory]
    return outcomes


def _outcome(opener: Callable[[], Log]) -> Log | Exception:
    try:
        return opener()
    except Exception as error:
        return error


def _wait(futures: Mapping[LogDirectory, Sequence[Future[Log | Exception]]]) -> None:
    pending = {future for of_directory in futures.values() for future in of_directory}
    while pending:
        done, pending = wait(pending, PROGRESS_S, FIRST_EXCEPTION)
        for future in done:
            future.result()  # a BaseException, such as an interrupt, ends the start
        if pending:
            _log_progress(futures)


def _log_progress(futures: Mapping[LogDirectory, Sequence[Future[Log | Exception]]]) -> None:
    for directory, of_directory in futures.items():
        done = [future.result() for future in of_directory if future.done()]
        if len(done) < len(of_directory):
            size = sum(one.size for one in done if not isinstance(one, Exception))
            logger.info("%s: %d of %d logs are recovered, %d bytes", directory.path, len(done), len(of_directory), size)
