"""An attack on a broker in one state of its connections, and what it must not have done."""

from __future__ import annotations

import contextlib
import datetime as dt
import random
import re
import socket
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from testing.hostile import states
from testing.hostile.cores import OnCore
from testing.hostile.target import HUSH, KNOWN, KNOWN_PASSWORD, MALLORY, SECRET, Honest, Target
from testing.hostile.victims import Attempt, attack
from testing.process.broker import LONG_TURN, TURN
from testing.process.procstat import memory_bytes, open_files
from testing.samples import T0_MS, Sample
from testing.wire import raw
from testing.wire.batches import sample_batch
from testing.wire.frames import served, well_formed
from testing.wire.legacy import message_set

HOLD_MS_MAX: Final = 50
GROWTH_MAX_BYTES: Final = 24 << 20
WAIT_S_MAX: Final = 20.0
"""How long the honest client may wait for a login, a record and a handshake, on a machine that has others to serve."""
FILES_MORE: Final = 8
"""Connections of the client that looks at the state, and segments."""
SERVED_MIN: Final = 3
SLOW_BYTES_MAX: Final = 64 << 10
"""The memory of a connection that has begun a handshake: a tenth of what the buffers of TLS may take."""
SETTLE_S: Final = 60.0
LOG_MS: Final = 1.0
"""Up to this long after its end is a turn in the log, whose times are in ms."""
_LOGGED: Final = re.compile(r"time=(\S+)")
_BAD: Final = re.compile(r"Traceback|level=(?:error|critical)")


class Outcome(NamedTuple):
    """An attack: its frames, the time, the honest requests beside it with the longest wait, and the growth of memory."""

    state: str
    frames: int
    seconds: float
    served: int
    longest_s: float
    growth_bytes: int
    faults: list[str]
    holds: dict[str, float]
    """The turns of the loop that took more than the bound on a core by their kind, each with the ms of its longest."""


def _frames(target: Target) -> list[bytes]:
    few = [Sample(b"k", b"v" * 20, T0_MS)] * 3
    frames = well_formed(KNOWN, sample_batch(few), message_set(few, 1))
    with raw.Connection(target.broker.bootstrap) as connection:
        deep = served(frames, raw.api_versions(connection))
    return [*deep * 10, *frames]


STATES: Final[Mapping[str, Callable[[random.Random, Target], states.Make]]] = {
    "before TLS": lambda rng, target: states.before_tls(rng, target.context()),
    "in TLS": lambda rng, target: states.in_tls(rng, target.context(), target.tls_address),
    "before SASL": lambda rng, target: states.before_sasl(rng, _frames(target)),
    "in SASL": lambda rng, _: states.in_sasl(rng, [MALLORY, "nobody"]),
    "after SASL": lambda rng, target: states.after_sasl(rng, _frames(target), MALLORY, KNOWN_PASSWORD),
}


def run(target: Target, state: str, frames: int, seed: int, *, limit_s: float = 3_600) -> Outcome:
    """Attack with this many frames, or as many as come in `limit_s`, and a tenth of them before the memory is looked at."""
    make = STATES[state](random.Random(f"{seed} {state}"), target)
    address = target.tls_address if "TLS" in state else target.address
    faults: list[str] = []
    before, files = target.state(), open_files(target.broker.pid)
    log_bytes = target.broker.log_file.stat().st_size

    def check(attempt: Attempt, received: bytes) -> None:
        if HUSH.encode() in received:
            faults.append(f"a response reveals {HUSH}: {attempt.data!r} got {received!r}")

    began = time.monotonic()
    cores = OnCore(target.broker.pid)
    with cores.watched(), Honest(target).beside() as honest:
        deadline_s = began + limit_s
        sent = attack(address, make, frames // 10, check=check, deadline_s=deadline_s)
        memory = memory_bytes(target.broker.pid)
        sent += attack(address, make, frames - sent, check=check, deadline_s=deadline_s)
    seconds = time.monotonic() - began
    left = _settled(target, files + FILES_MORE)
    growth = memory_bytes(target.broker.pid) - memory
    faults += [f"{left - files} descriptors are left"] if left > files + FILES_MORE else []
    faults += [f"memory has grown by {growth >> 20} MiB"] if growth > GROWTH_MAX_BYTES else []
    faults += [f"the honest client waited {honest.longest_s:.1f} s"] if honest.longest_s > WAIT_S_MAX else []
    faults += [
        f"{name} has changed: {one} before, {now} now"
        for (name, one), now in zip(before.items(), target.state().values(), strict=True)
        if one != now
    ]
    with target.broker.log_file.open("rb") as log:
        log.seek(log_bytes)
        text = log.read().decode(errors="replace")
    holds: dict[str, float] = {}
    for line in text.splitlines():
        if LONG_TURN in line and (turn := TURN.search(line)):
            if (ran_ms := _ran_ms(line, float(turn[2]), cores)) > HOLD_MS_MAX:
                holds[turn[1]] = max(holds.get(turn[1], 0), ran_ms)
        elif _BAD.search(line) or SECRET in line or KNOWN_PASSWORD in line:
            faults.append(line)
    if not target.broker.is_running:
        faults.append("the broker has ended")
    return Outcome(state, sent, seconds, honest.served, honest.longest_s, growth, faults, holds)


def _ran_ms(line: str, held_ms: float, cores: OnCore) -> float:
    """Return how long a turn in the log was on a core, at most."""
    logged = _LOGGED.match(line)
    end_s = dt.datetime.fromisoformat(logged[1]).timestamp() if logged else 0.0
    return min(held_ms, cores.most_ms(end_s - (held_ms + LOG_MS) / 1_000, end_s))


def run_slow(target: Target, count: int, hold_s: float) -> Outcome:
    """Begin many handshakes at once, and leave them there."""
    context = target.context()
    hello = states.hello(context)
    faults: list[str] = []
    files, began = open_files(target.broker.pid), time.monotonic()
    memory = memory_bytes(target.broker.pid)
    with Honest(target).beside() as honest, contextlib.ExitStack() as closing:
        slow = [closing.enter_context(socket.create_connection(target.tls_address, SETTLE_S)) for _ in range(count)]
        for number, one in enumerate(slow):
            one.sendall(hello[: number % len(hello)])
        end = time.monotonic() + hold_s
        while time.monotonic() < end or honest.served < SERVED_MIN:
            time.sleep(0.05)  # the honest client is served meanwhile, in a thread
        growth = memory_bytes(target.broker.pid) - memory
        for one in slow:
            one.setblocking(False)
            with contextlib.suppress(OSError):
                faults += [f"a slow handshake got {got!r}" for got in [one.recv(1 << 16)] if got]
    seconds = time.monotonic() - began
    left = _settled(target, files + FILES_MORE)
    faults += [f"{left - files} descriptors are left"] if left > files + FILES_MORE else []
    faults += [f"memory has grown by {growth >> 20} MiB"] if growth > count * SLOW_BYTES_MAX else []
    faults += [f"the honest client waited {honest.longest_s:.1f} s"] if honest.longest_s > WAIT_S_MAX else []
    return Outcome("slow TLS", count, seconds, honest.served, honest.longest_s, growth, faults, {})


def _settled(target: Target, at_most: int) -> int:
    deadline = time.monotonic() + SETTLE_S
    while (count := open_files(target.broker.pid)) > at_most and time.monotonic() < deadline:
        time.sleep(0.05)  # /proc reports no changes
    return count
