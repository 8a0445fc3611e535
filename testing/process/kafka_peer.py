"""Apache Kafka as a peer: a release from Maven Central, started as a broker process that prints READY as ours does.

    python -m testing.process.kafka_peer start --port 0 --data-dir DIR [--override k=v]... [--release 3.9.2] [--heap 1G]

It formats the data directory when that is new, starts broker and controller in one JVM with options for short runs, prints
`READY host:port` once the broker responds to Metadata, and stops on SIGTERM. Benchmarks start the broker with the options of
Kafka's own start script instead. The jars are kept in the cache folder: `.cache/` in the repository, or PYBROKER_CACHE_DIR. It
needs a Java runtime (17 or newer) and, the first time, Maven.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from testing.places import cache_dir
from testing.process.java import quick_java

RELEASE = "3.9.2"
CLUSTER_ID = "cHlicm9rZXItcGVlci0wMQ"
LOG4J1_BINDING = ""  # up to 3.9 the broker brings a binding of its own
LOG4J2_BINDING = """
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.4</version></dependency>"""
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>kafka-peer</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{release}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{release}</version></dependency>{binding}
  </dependencies>
</project>
"""
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={logs}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""
LOG4J1 = """log4j.rootLogger=INFO, F
log4j.appender.F=org.apache.log4j.FileAppender
log4j.appender.F.File={file}
log4j.appender.F.layout=org.apache.log4j.PatternLayout
log4j.appender.F.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
LOG4J2 = """<Configuration status="WARN"><Appenders>
<File name="F" fileName="{file}"><PatternLayout pattern="[%d] %p %m (%c)%n"/></File></Appenders><Loggers><Root
level="INFO"><AppenderRef ref="F"/></Root></Loggers></Configuration>
"""
# the options of bin/kafka-run-class.sh
JVM_OPTIONS = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
]
START_TIMEOUT_S = 180
JVM_EXIT_SIGTERM = 143


def require(release: str = RELEASE) -> None:
    """Exit with a message that names what is missing to run Apache Kafka, if anything is."""
    if shutil.which("java") is None:
        sys.exit("Error: Apache Kafka needs a Java runtime, 17 or newer; --no-kafka measures ours alone")
    try:
        classpath(release)
    except (RuntimeError, subprocess.CalledProcessError) as error:
        sys.exit(f"Error: {error}")


def classpath(release: str = RELEASE) -> str:
    """Return a class path of broker and tools of a release, with every dependency, which Maven downloads once."""
    folder = cache_dir() / f"kafka-{release}"
    if not folder.exists():
        if shutil.which("mvn") is None:
            raise RuntimeError("Apache Kafka is brought by Maven, which is not installed; --no-kafka measures ours alone")
        cache_dir().mkdir(parents=True, exist_ok=True)
        from testing.process import maven  # noqa: PLC0415 (only where Kafka has not been brought yet)

        with tempfile.TemporaryDirectory(dir=cache_dir()) as work:
            binding = LOG4J1_BINDING if release.startswith("3.") else LOG4J2_BINDING
            (Path(work) / "pom.xml").write_text(POM.format(release=release, binding=binding))
            goal = ("dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=libs")
            maven.run_maven(*goal, folder=Path(work), what=f"Apache Kafka {release}")
            try:
                (Path(work) / "libs").replace(folder)  # whole or not at all
            except OSError:
                if not folder.exists():  # another process was faster
                    raise
    return f"{folder}/*"


def logging_options(folder: Path, log: Path) -> list[str]:
    """Return options that log INFO to a file, as the distribution does, for either generation of log4j."""
    (folder / "log4j.properties").write_text(LOG4J1.format(file=log))
    (folder / "log4j2.xml").write_text(LOG4J2.format(file=log))
    return [f"-Dlog4j.configuration=file:{folder}/log4j.properties", f"-Dlog4j2.configurationFile=file:{folder}/log4j2.xml"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serves_metadata(host: str, port: int, timeout_s: float = 5) -> bool:
    """Return whether the response to Metadata v1 (no topics) names a broker; our broker and Kafka's get the same request."""
    body = struct.pack(">hhih4si", 3, 1, 7, 4, b"wait", 0)
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            with connection.makefile("rb") as stream:
                size = struct.unpack(">i", stream.read(4))[0]
                response = stream.read(size)
        return bool(struct.unpack_from(">i", response, 4)[0] >= 1)
    except (OSError, struct.error):
        return False


def command(
    data: Path, port: int, overrides: Iterable[str] = (), *, release: str = RELEASE, heap: str = "1G", is_short: bool = False
) -> list[str]:
    """Write the configuration, format the directory when it is new, and return the command that starts the broker.

    The JVM gets the options of Kafka's own start script, or those of a short run.
    """
    data = data.resolve()
    data.mkdir(parents=True, exist_ok=True)
    properties = PROPERTIES.format(port=port, controller_port=free_port(), logs=data / "logs")
    (data / "server.properties").write_text(properties + "".join(f"{line}\n" for line in overrides))
    logging = logging_options(data, data / "server.log")
    short = quick_java(classpath(release))
    if not (data / "logs" / "meta.properties").exists():
        arguments = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(data / "server.properties")]
        subprocess.run([*short, *logging, *arguments], check=True, timeout=START_TIMEOUT_S, capture_output=True)
    server = ["java", f"-Xms{heap}", *JVM_OPTIONS, "-cp", classpath(release)]
    return [*(short if is_short else server), f"-Xmx{heap}", *logging, "kafka.Kafka", str(data / "server.properties")]


def start(options: argparse.Namespace) -> None:
    require(options.release)
    data = Path(options.data_dir)
    port = options.port or free_port()
    java = command(data, port, options.override, release=options.release, heap=options.heap, is_short=True)
    began = time.monotonic()
    with (data / "stdout.log").open("wb") as output:
        broker = subprocess.Popen(java, stdout=output, stderr=subprocess.STDOUT)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: broker.terminate())
    while not serves_metadata("127.0.0.1", port):
        if broker.poll() is not None or time.monotonic() - began > START_TIMEOUT_S:
            broker.kill()
            sys.exit(f"Kafka did not start, see {data}/server.log and {data}/stdout.log")
        time.sleep(0.01)
    print(f"READY 127.0.0.1:{port}", flush=True)
    code = broker.wait()
    sys.exit(0 if code == JVM_EXIT_SIGTERM else code)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="testing.process.kafka_peer", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("command", choices=["start"])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--override", action="append", default=[])
    parser.add_argument("--release", default=RELEASE)
    parser.add_argument("--heap", default="1G")
    start(parser.parse_args())


if __name__ == "__main__":
    main()
