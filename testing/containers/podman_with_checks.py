#!/usr/bin/env python3
"""podman for podman-compose, on a machine that runs no health checks.

podman leaves health checks to systemd; without systemd a container stays `starting` until it ends. podman before 4.6 cannot wait
for a container's health either, so podman-compose ignores `condition: service_healthy` with it. This program stands between the
two. It runs the checks itself while it waits for health, and it reports that it can wait. It passes everything else through
unchanged, except an option that podman before 4.5 does not know: the interval of checks during the start, which has no effect
here.
"""

import os
import subprocess
import sys
import time

CAN_WAIT = "podman version 4.6.0"
HEALTHY = "--condition=healthy"
START_INTERVAL = "--health-startup-interval"
PAUSE_S = 0.1
TIMEOUT_S = 120


def main(arguments: list[str]) -> None:
    if arguments == ["--version"]:
        print(CAN_WAIT)
    elif "wait" in arguments and HEALTHY in arguments:
        for name in arguments[arguments.index(HEALTHY) + 1 :]:
            wait_healthy(name)
    else:
        if START_INTERVAL in arguments:
            position = arguments.index(START_INTERVAL)
            arguments = arguments[:position] + arguments[position + 2 :]
        os.execvp("podman", ["podman", *arguments])


def wait_healthy(name: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while subprocess.run(["podman", "healthcheck", "run", name], capture_output=True, timeout=60, check=False).returncode:
        if time.monotonic() > deadline:
            sys.exit(f"{name} did not get healthy in {TIMEOUT_S} s")
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(sys.argv[1:])
