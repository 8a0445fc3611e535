"""Compares two builds of the repository, so that a change can be held against the last release.

    python -m benchmarks.guard BASE [REVISION] [--only produce] [--rounds 5]

BASE and REVISION are revisions; without the second, BASE is compared with what is checked out here. A revision is checked out
below `build/guard` and compiled there once, and runs with the packages of this environment. The requests are those of
`instructions` here, and both brokers get the same. Instructions are counted by valgrind, and are the same on a busy machine as on
a quiet one; of the starts, which alternate, the least CPU time and memory count. The last column is the second build's figure
divided by that of BASE. The exit code is 1 if a ratio is above `--limit`.
"""

from __future__ import annotations

import argparse
import compileall
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from benchmarks import build, peers
from benchmarks.instructions import CountedPeer, count, frames
from testing.process import procstat

HERE = Path(__file__).parent.parent
CHECKOUTS = HERE / "build" / "guard"
SHAPES = ((1, 1), (50, 1))  # connections, requests under way on each
SETTLE_S = 3


def checkout(base: str) -> Path:
    """Return a folder with the code of the revision, its native parts built."""
    revision = _git("rev-parse", "--short", f"{base}^{{commit}}")
    folder = CHECKOUTS / revision
    if not folder.exists():
        _git("worktree", "prune")
        _git("worktree", "add", "--detach", str(folder), revision)
    if not any(folder.glob("pybroker/*/*.so")):
        print(f"Compiling {revision} in {folder}", flush=True)
        compile_it = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
        subprocess.run(compile_it, cwd=folder, check=True, capture_output=True)
    for tree in (folder, HERE):
        compileall.compile_dir(tree / "pybroker", quiet=1)
    return folder


def counted(tree: Path, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Return the thousand instructions per request of each kind of request."""
    found = {}
    with closing(CountedPeer(folder, [], checkout=tree)) as peer:
        peer.start()
        for name, (frame, share) in frames(peer.bootstrap).items():
            if options.only.lower() in name.lower():
                for shape in SHAPES:
                    number = count(peer, frame, shape, options.requests // share, only_served=True)
                    found[f"{name}, {shape[0]} connections: thousand instructions"] = number / 1000
    return found


def started(tree: Path, folder: Path) -> tuple[float, float]:
    """Start a broker and stop it. Return the CPU-seconds until its first response, and its memory at rest in MB."""
    peer = peers.Peer(peers.OURS, folder, checkout=tree)
    with closing(peer):
        peer.start()
        cpu_s = procstat.cpu_s(peer.pid)
        time.sleep(SETTLE_S)
        return cpu_s, procstat.memory_bytes(peer.pid) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE", help="the revision to compare with")
    parser.add_argument("revision", metavar="REVISION", nargs="?", help="the revision to compare (default: what is here)")
    parser.add_argument("--only", default="", help="take only the requests with this in their names")
    parser.add_argument("--requests", type=int, default=200, help="how many requests a figure counts (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="starts of each build (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=1.03, help="the greatest ratio that passes (default: %(default)s)")
    parser.add_argument("--data", type=Path, help="where the brokers keep their data (default: a temporary folder)")
    options = parser.parse_args()
    build.announce()
    trees = {"base": checkout(options.base), "other": HERE if options.revision is None else checkout(options.revision)}
    figures: dict[str, dict[str, float]] = {name: {} for name in trees}
    with peers.folder(options) as folder:
        for name, tree in trees.items():
            figures[name] = counted(tree, folder / f"{name}-counted", options)
        starts: dict[str, list[tuple[float, float]]] = {name: [] for name in trees}
        for _ in range(options.rounds):
            for name, tree in trees.items():
                starts[name].append(started(tree, folder / name))
    for name, numbers in starts.items():
        if numbers:
            figures[name]["start to the first response: CPU-s"] = min(cpu_s for cpu_s, _ in numbers)
            figures[name]["memory at rest: MB"] = min(memory for _, memory in numbers)
    other = figures["other"]
    rows = [(what, base, other[what], other[what] / base) for what, base in figures["base"].items()]
    title = options.revision or "here"
    peers.table(f"{title} beside {options.base}", ["figure", options.base, title, "ratio"], rows)
    if above := [what for what, *_, ratio in rows if ratio > options.limit]:
        sys.exit(f"Above {options.limit}: {'; '.join(above)}")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=HERE, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
