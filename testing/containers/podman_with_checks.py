#!/usr/bin/env python3
"""podman for podman-compose, on a machine where nobody runs health checks.

podman has systemd start them; without systemd a container stays `starting` for ever. And podman before 4.6 cannot wait for a
container's health, so podman-compose ignores `condition: service_healthy` with it. This program stands between the two: it waits
for health by running the checks itself, says that it can, and hands everything else on as it is, but an option that podman before
4.5 does not know, for how often to check during the start: nobody would.
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
