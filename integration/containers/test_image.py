"""The image before anything runs in it: its size, its labels and settings, and its contents."""

from __future__ import annotations

from testing.containers.containers import CHECK, DATA
from testing.containers.engine import Engine
from testing.containers.image import MB, sizes
from testing.places import ROOT

COMPRESSED_MB_MAX = 80
LIBRARIES = """
import crc32c, lz4.frame, pydantic_core, snappy, uvloop, zstandard
text = b"stripped " * 1000
assert zstandard.decompress(zstandard.compress(text)) == text
assert lz4.frame.decompress(lz4.frame.compress(text)) == text
assert snappy.decompress(snappy.compress(text)) == text
assert crc32c.crc32c(b"123456789") == 0xE3069283
"""
"""A program that uses the libraries of other projects, after the Dockerfile has taken symbols out of them."""


def test_the_image_is_small(engine: Engine, image: str) -> None:
    compressed, unpacked = sizes(engine, image)
    print(f"{compressed / MB:.1f} MB to pull (gzip), {unpacked / MB:.1f} MB unpacked")
    assert compressed / MB <= COMPRESSED_MB_MAX


def test_the_image_has_its_labels_and_an_ordinary_user(engine: Engine, image: str) -> None:
    config = engine.inspect("image", image)["Config"]
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert config["User"] == "1000:0"
    assert list(config["Volumes"]) == [DATA]
    assert "9092/tcp" in config["ExposedPorts"]
    assert config["Cmd"][-2:] == ["pybroker", "container"]
    assert not config.get("Entrypoint"), "with an entry point, `command: kafka-topics ...` would become its arguments"


def test_the_health_check_runs_every_two_seconds_and_starts_no_cli(engine: Engine, image: str) -> None:
    found = engine.inspect("image", image)
    check = found["Healthcheck"] if engine.is_podman else found["Config"]["Healthcheck"]
    assert check["Test"] == ["CMD", *CHECK]
    assert check["Interval"] == 2_000_000_000


def test_the_image_has_a_newer_python_the_native_parts_bash_and_nc(engine: Engine, image: str) -> None:
    script = (
        "import sys, importlib; assert sys.version_info > (3, 12), sys.version\n"
        "for name in sys.argv[1:]: assert importlib.import_module(name).__file__.endswith('.so'), name"
    )
    sources = [path.relative_to(ROOT) for path in sorted(ROOT.glob("pybroker/**/*.pyx"))]
    assert sources
    modules = [str(path.with_suffix("")).replace("/", ".") for path in sources]
    engine.run("run", "--rm", image, "/opt/pybroker/bin/python", "-c", script, *modules)
    engine.run("run", "--rm", image, "/opt/pybroker/bin/python", "-c", LIBRARIES)
    engine.run("run", "--rm", image, "bash", "-c", "command -v nc pybroker && ! command -v gcc")
