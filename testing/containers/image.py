"""Build the images, and print their sizes.

python -m testing.containers.image build [STAGE]   build with Docker or podman, and make the base image if it is missing
python -m testing.containers.image size [STAGE]    print the bytes that are pulled and the bytes on the disk
python -m testing.containers.image base            make the base image alone

STAGE is broker (the default), clients or spark. The base has its well-known name, by which Docker pulls it. Where the engine is
podman and no image has that name, as on a machine that reaches no registry, base_image.sh makes the base from Debian's packages.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zlib
from pathlib import Path
from typing import Final

from testing.containers import engine as engines
from testing.containers.engine import BUILD_TIMEOUT_S, Engine, EngineError, cause
from testing.places import ROOT

NAMES: Final = {"broker": "pybroker", "clients": "pybroker-clients", "spark": "pybroker-spark"}
"""The Dockerfile's stages that become images, and the images' names in docker-compose.yml."""

START_INTERVAL: Final = re.compile(r" --start-interval=\S+")
GZIP_LEVEL: Final = 6
GZIP_MAGIC: Final = b"\x1f\x8b"
PIECE_BYTES: Final = 1 << 20
MB: Final = 1e6


def base_name() -> str:
    """Return the name of the image that the Dockerfile begins with."""
    first = re.search(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert first is not None
    return first[1]


def make_base(engine: Engine) -> None:
    """Make the base image, unless it exists or the engine pulls it: Docker does, and podman where debootstrap or root is
    missing.
    """
    name = base_name()
    if not engine.is_podman or engine.has_image(name) or os.geteuid() != 0 or shutil.which("debootstrap") is None:
        return
    print(f"making the base image {name} of Debian's packages", flush=True)
    script = str(Path(__file__).with_name("base_image.sh"))
    subprocess.run([script, engine.name, name], check=True, env=engine.full_environment, timeout=BUILD_TIMEOUT_S)


def build(engine: Engine, stage: str = "broker") -> str:
    """Build an image, reusing existing layers, and return its id, because its name may later belong to another image."""
    make_base(engine)
    dockerfile = (ROOT / "Dockerfile").read_text()
    options = ["--target", stage, "--tag", NAMES[stage]]
    if engine.is_podman:
        # podman's own format has no health checks. The certificates are for machines whose traffic is inspected.
        options += ["--format", "docker", "--network", "host", "--volume", "/etc/ssl/certs:/etc/ssl/certs:ro"]
        if not knows_start_interval(engine):
            dockerfile = START_INTERVAL.sub("", dockerfile)
            print("this podman knows no --start-interval: the image is checked every interval from the start", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        id_file = Path(folder) / "id"
        options += ["--iidfile", str(id_file), "--file", "-", str(ROOT)]
        done = engine.call("build", *options, text_in=dockerfile, timeout_s=BUILD_TIMEOUT_S, is_merged=True)
        if done.returncode:
            raise EngineError(f"{NAMES[stage]} cannot be built with {engine.name}\n{cause(done.stdout)}")
        return id_file.read_text().strip()


def hindrance(engine: Engine | None) -> str | None:
    """Return why no image can be built here: there is no engine, or it cannot run a command on the base. None if one can."""
    if engine is None:
        return "neither a Docker daemon nor podman is there"
    try:
        make_base(engine)
        engine.run("run", "--rm", *(["--network", "host"] if engine.is_podman else []), base_name(), "python", "--version")
    except (EngineError, OSError, subprocess.SubprocessError) as error:
        return f"{engine.name} cannot run a command on {base_name()}: {error}"
    return None


def knows_start_interval(engine: Engine) -> bool:
    """Return whether the engine builds health checks with a start interval: Docker does from 25 on, podman only recently."""
    probe = 'FROM scratch\nHEALTHCHECK --start-interval=1s CMD ["true"]\n'
    with tempfile.TemporaryDirectory() as context:
        done = engine.call("build", "--format", "docker", "--file", "-", context, text_in=probe)
    if done.returncode == 0:
        engine.call("image", "rm", done.stdout.split()[-1])
    return done.returncode == 0


def sizes(engine: Engine, name: str) -> tuple[int, int]:
    """Return the bytes of all layers as a registry keeps them (gzip), and unpacked."""
    with tempfile.TemporaryFile() as file:
        command = [engine.name, "save", name]
        subprocess.run(command, stdout=file, check=True, env=engine.full_environment, timeout=BUILD_TIMEOUT_S)
        file.seek(0)
        compressed = unpacked = 0
        with tarfile.open(fileobj=file) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is None or member.name.endswith(("json", "index", "oci-layout", "repositories", "VERSION")):
                    continue
                small, large = _weigh(content)
                compressed, unpacked = compressed + small, unpacked + large
    return compressed, unpacked


def _weigh(content: object) -> tuple[int, int]:
    """Measure a file of an image's archive: a layer, compressed or not, or a small description."""
    pack, unpack = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 31), None
    compressed = unpacked = 0
    first = True
    while piece := content.read(PIECE_BYTES):  # type: ignore[attr-defined]
        if first and piece.startswith(GZIP_MAGIC):
            unpack = zlib.decompressobj(31)
        first = False
        if unpack is None:
            compressed += len(pack.compress(piece))
            unpacked += len(piece)
        else:
            compressed += len(piece)
            unpacked += len(unpack.decompress(piece))
    return compressed + (len(pack.flush()) if unpack is None else 0), unpacked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["build", "size", "base"])
    parser.add_argument("stage", nargs="?", choices=list(NAMES), default="broker")
    options = parser.parse_args()
    engine = engines.find()
    if engine is None:
        sys.exit("Error: neither a Docker daemon nor podman is there; `make containers` installs podman on Debian")
    try:
        if options.command == "base":
            make_base(engine)
            return
        if options.command == "build":
            print(f"building {NAMES[options.stage]} with {engine.name}: some minutes the first time", flush=True)
            print(f"built {build(engine, options.stage)} with {engine.name}", flush=True)
        compressed, unpacked = sizes(engine, NAMES[options.stage])
    except (EngineError, subprocess.CalledProcessError) as error:
        sys.exit(f"Error: {error}")
    print(f"{NAMES[options.stage]}: {compressed / MB:.1f} MB to pull (gzip), {unpacked / MB:.1f} MB unpacked")


if __name__ == "__main__":
    main()
