"""`pybroker start --brokers N`: several brokers of one machine under one parent, and the command line of each."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pybroker.cli.main import ConfigurationError, RunError

if TYPE_CHECKING:
    import signal

    from pybroker.broker.ready_file import ReadyFile
    from pybroker.config.broker import BrokerConfig


class Options(NamedTuple):
    """The options of the parent that are those of each broker too."""

    config: Path | None
    env: bool
    overrides: Sequence[str]
    levels: Sequence[str]
    log_format: str | None
    log_config: Path | None

    def arguments(self) -> list[str]:
        """Return the arguments behind `pybroker start`."""
        files = [str(self.config)] if self.config is not None else []
        arguments = [*files, "--exit-with-parent", *(["--env"] if self.env else [])]
        for option, value in (("--log-format", self.log_format), ("--log-config", self.log_config)):
            arguments += [] if value is None else [option, str(value)]
        for option, values in (("--log-level", self.levels), ("--override", self.overrides)):
            for value in values:
                arguments += [option, value]
        return arguments


def serve_several(
    config: BrokerConfig,
    count: int,
    options: Options,
    ready_file: ReadyFile | None,
    *,
    stop_signals: Sequence[signal.Signals],
    parent: int | None,
) -> int:
    """Run several brokers until a signal or the end of the process `parent`, and return the exit code.

    Raises ConfigurationError and RunError.
    """
    from pybroker.broker.several import parent as several
    from pybroker.broker.several.settings import check, properties_of, why_not_start
    from pybroker.config.setting import ConfigError
    from pybroker.log.files.filesystem import Filesystem

    try:
        check(config, count)
    except ConfigError as error:
        raise ConfigurationError(str(error)) from error
    if (reason := why_not_start(config, count, Filesystem())) is not None:
        raise RunError(reason)

    is_path_safe = str(Path.cwd()) not in sys.path  # then no module of the working directory may come before another one

    def command_of(number: int, store: str, port: int | None) -> list[str]:
        python = [sys.executable, *(["-P"] if is_path_safe else [])]
        command = [*python, "-m", "pybroker", "start", *options.arguments(), "--log-field", f"broker={number}"]
        for name, value in properties_of(config, number, store, port=port).items():
            command += ["--override", f"{name}={value}"]
        return command

    gc.enable()
    try:
        return several.run(config, count, command_of, ready_file, stop_signals=stop_signals, parent=parent)
    except several.ParentError as error:
        raise RunError(str(error)) from error
    except OSError as error:
        raise RunError(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from error
