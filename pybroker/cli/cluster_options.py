"""The common parts of all commands for a cluster: which cluster is meant, how they print, and how they fail."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from pybroker.cli.main import ConfigurationError, RunError

if TYPE_CHECKING:
    from types import FrameType

    from pybroker.terminal.output import Output
    from pybroker.terminal.session import Cluster
    from pybroker.tools.target import Target

INTERRUPTED: Final = 130
"""The exit code after Ctrl-C and SIGTERM, the same as a shell's after Ctrl-C."""
READER_GONE: Final = 141
"""The exit code when the reader of the output is gone, the same as a shell's for SIGPIPE."""

ENDING_S: Final = 1.0
"""How long after SIGTERM another one has no effect."""

Command = Callable[..., Any]


class Where:
    """The cluster that the options name, and the way to print."""

    def __init__(self, target: Target, output: Output) -> None:
        self.target, self.output = target, output

    def cluster(self) -> Cluster:
        """Connect. Raises ClientError."""
        from pybroker.terminal.session import Cluster

        return Cluster(self.target)


json_option = click.option("--json", "is_json", is_flag=True, help="Print JSON for scripts: an object on each line.")
"""The option of commands whose output a script may read."""

timeout_option = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="How long a response may take; 30 s by default.",
)
"""The option of commands that wait for responses."""


def cluster_options(function: Command) -> Command:
    """Add the options that name a cluster to a command, which receives `where`, and report its errors in one line."""

    @functools.wraps(function)
    def command(
        *,
        bootstrap: str | None,
        profile: str | None,
        command_config: str | None,
        timeout_s: float | None,
        is_json: bool,
        **others: Any,
    ) -> Any:
        from pybroker.terminal.output import Output
        from pybroker.terminal.profiles import target_of

        with failures_in_one_line(bootstrap):
            target = target_of(
                os.environ, bootstrap=bootstrap, profile=profile, command_config=command_config, timeout_s=timeout_s
            )
        with failures_in_one_line(target.bootstrap):
            output = Output(click.echo, is_json=is_json, has_colours=has_colours())
            return function(where=Where(target, output), **others)

    for option in (
        json_option,
        timeout_option,
        click.option(
            "--command-config", metavar="FILE", help="Read settings of the client from this properties file, as Kafka's tools do."
        ),
        click.option(
            "--profile", metavar="NAME", help="Use this cluster of the file of profiles; by default that of $PYBROKER_PROFILE."
        ),
        click.option(
            "-b",
            "--bootstrap",
            metavar="HOST:PORT",
            help="Connect to this broker; by default $PYBROKER_BOOTSTRAP, or localhost:9092.",
        ),
    ):
        command = option(command)
    return command


def has_colours() -> bool:
    """Return whether standard output is a terminal whose user has nothing against colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@contextmanager
def failures_in_one_line(bootstrap: str | None) -> Iterator[None]:
    """Report an expected error of the block in one line, and end with the exit code that it has. SIGTERM acts like Ctrl-C."""
    from pybroker.tools.errors import NOT_SUPPORTED, CommandError

    try:
        with _sigterm_as_ctrl_c():
            yield
    except CommandError as error:
        raise (ConfigurationError if error.code == NOT_SUPPORTED else RunError)(str(error)) from error
    except KeyboardInterrupt as error:
        raise click.exceptions.Exit(INTERRUPTED) from error
    except BrokenPipeError as error:
        forget_stdout()
        raise click.exceptions.Exit(READER_GONE) from error
    except click.exceptions.ClickException:
        raise
    except Exception as error:
        from pybroker.terminal import session

        if not isinstance(error, session.EXPECTED):
            raise
        raise RunError(str(session.failed(error, bootstrap or ""))) from error


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Handle the first SIGTERM of the block as SIGINT. `timeout` sends two at once, and a second one would end the commit that
    the first has begun: it has no effect, unless the command has not ended by itself for a while.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main one receives signals
        yield
        return
    came_at: float | None = None

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal came_at
        if came_at is not None:
            if time.monotonic() > came_at + ENDING_S:
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
            return
        came_at = time.monotonic()
        interrupt = signal.getsignal(signal.SIGINT)
        if not callable(interrupt):  # ignored, as in the background of a script, whose `kill` is heard all the same
            raise KeyboardInterrupt
        interrupt(signal.SIGINT, frame)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        if came_at is None:
            signal.signal(signal.SIGTERM, before)


def forget_stdout() -> None:
    """Close standard output, whose reader is gone: the interpreter would complain when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    """Parse the values NAME=VALUE of an option. Raises UsageError."""
    found = {}
    for one in given:
        name, separator, value = one.partition("=")
        if not separator or not name.strip():
            raise click.UsageError(f"{option} {one}: must be NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def confirmed(question: str, *, is_sure: bool) -> None:
    """Ask before something is lost; where no person can be asked, --yes is needed. Raises UsageError and Abort."""
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Add --yes, because there is no terminal to ask at.")
    click.confirm(question, abort=True)


def examples(*lines: str) -> str:
    """Return the end of a command's help: lines that a person may try. A test runs them."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


yes_option = click.option("-y", "--yes", "is_sure", is_flag=True, help="Do not ask before something is lost.")
"""The option of commands after which something is lost."""
