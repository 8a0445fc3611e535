"""Stories that Kafka's command line tools go through, and what they print in them.

`golden/tools_story.txt` has the commands; `golden/users_story.txt` those about users, whose clients log in. A file such as
`golden/tools-RELEASE-kafka-RELEASE.txt` has what the tools of a release then print about Apache Kafka of a release, without what
differs in every run (`normal`). We follow Kafka 3.9.2; 4.x shows what the newer
tools print about what 3.9 does not have. This makes the files again:

    python -m integration.tools.tools_story
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, Producer

from testing.process.broker import BrokerProcess
from testing.process.kafka_peer import free_port
from testing.process.tool_runner import Ran, ToolRunner

FOLDER: Final = Path(__file__).parent / "golden"
TOOLS, USERS = "tools", "users"
"""The stories."""
WAIT_S: Final = 60
UNSERVED_S: Final = 30  # librdkafka tries a protocol that is not served again and again
EOF: Final = KafkaError._PARTITION_EOF

NORMAL: Final[tuple[tuple[str, str], ...]] = (
    (r"127\.0\.0\.1:\d+", "<broker>"),
    (r"(TopicId: |TOPIC-ID: )[\w-]{22}", r"\1<id>"),
    (r"\b(\w+)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", r"\1-<uuid>"),
    (r"(?<= )[\w/+-]{22}(?= +/127)", "<id>"),  # a member of librdkafka's
    (r'"timestamp":\d+', '"timestamp":<now>'),
    (r'"avg_throughput":[\d.]+', '"avg_throughput":<speed>'),
    (r'("logDir":|"log_dirs":\[)"/[^"]*"', r'\1"<directory>"'),
    (r"127\.0\.0\.1 \d+ *", "127.0.0.1 <port> "),
    (r'"size":[1-9]\d*', '"size":<bytes>'),
    (r"^(Cluster ID: ).*", r"\1<id>"),
    (r"^(__consumer_offsets:\d+:)[1-9]\d*", r"\1<some>"),
    (r"(\): )\d+(?: to \d+)? (\[usable: )", r"\1\2"),  # of an API's versions, those count that both sides know
    (r"Epoch: \d+", "Epoch: <count>"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d\b", "<time>"),
)

OF_A_SET: Final = re.compile(
    r"(Invalid state list .* Valid states are: |Quota configs for .* are |.* only supports operations )(.*)"
)

MARK: Final = re.compile(r"(\$[~<]?|[>&]|##) ")
"""The beginning of a step's line, which is the beginning of no line that a tool prints."""


def normal(text: str) -> list[str]:
    """Return a tool's lines without what differs in every run, Java's stack traces, and help about its options."""
    lines = []
    for line in text.splitlines():
        if re.match(r"Option +Description *$", line):
            break
        if re.match(r"\s+at [\w.$]+|\s+\.\.\. \d+ (more|common frames)", line):
            continue
        for pattern, replacement in NORMAL:
            line = re.sub(pattern, replacement, line)
        if (match := OF_A_SET.match(line)) is not None:
            line = match[1] + ", ".join(sorted(match[2].split(", ")))  # a set, in the order of hashes
        lines.append(line.rstrip())
    return lines


class Step(NamedTuple):
    """A run of a tool, or an action of a client."""

    line: str
    """The step's line in the story, and in the output of a story."""

    given: str = ""


def steps(release: str, story: str = TOOLS) -> Iterator[Step]:
    """Yield the steps of a story for the tools of a release."""
    generation, lines = release.partition(".")[0], (FOLDER / f"{story}_story.txt").read_text().splitlines()
    for index, line in enumerate(lines):
        if (match := re.fullmatch(r"@(\d) (.*)", line)) is not None:
            if match[1] != generation:
                continue
            line = match[2]
        if not line or line.startswith(("# ", "#  ", "<")) or line == "#":
            continue
        given = []
        for follower in lines[index + 1 :]:
            if not follower.startswith("< "):
                break
            given.append(f"{follower[2:]}\n")
        yield Step(line, "".join(given))


class Runner(Protocol):
    """A runner of the tools."""

    def run(self, tool: str, *arguments: str, given: str = "") -> Ran: ...

    def close(self) -> None: ...


class Story:
    """A story that one broker goes through. It owns the tools and the clients.

    The story waits `settle_s` after every change, because Kafka's broker learns of a change from its controller a little later.
    """

    def __init__(self, tools: Runner, bootstrap: str, folder: Path, settle_s: float = 0) -> None:
        self._bootstrap, self._folder, self._settle_s = bootstrap, folder, settle_s
        self._tools = tools
        self._members: dict[str, Consumer] = {}
        self._tokens: list[tuple[str, str]] = []  # the ids and the HMACs of delegation tokens, in the order of their creation
        self._deeds: dict[str, Callable[..., list[str] | None]] = {
            "produce": self._produce,
            "join": self._join,
            "leave": self._leave,
        }

    def play(self, step: Step) -> list[str]:
        """Do a step and return its lines: the step itself, and what was printed."""
        mark, _, rest = step.line.partition(" ")
        if mark in ("$", "$~", "$<"):
            return [step.line, *self._run(shlex.split(self._with_tokens(rest)), step.given, in_order=mark != "$~")]
        if mark == ">":
            name, _, text = rest.partition(" ")
            (self._folder / name).write_text(self._with_tokens(text).replace("\\n", "\n") + "\n")
        elif mark == "&":
            deed, *arguments = rest.split()
            return [step.line, *(self._deeds[deed](*arguments) or ())]
        else:
            assert mark == "##", step.line
        return [step.line]

    def _run(self, words: list[str], given: str, *, in_order: bool) -> list[str]:
        tool, *arguments = words
        if tool in ("features", "transactions"):  # before the word for what to do
            arguments = ["--bootstrap-server", self._bootstrap, *arguments]
        else:
            arguments = [*arguments, "--bootstrap-server", self._bootstrap]
        ran = self._tools.run(tool, *arguments, given=given)
        if {"--add", "--alter", "--create", "--delete", "--expire", "--renew"}.intersection(arguments):
            time.sleep(self._settle_s)
        for created in re.findall(r"^([\w-]{22}) ([\w+/=]{88}) ", ran.out, re.MULTILINE):
            if created not in self._tokens:
                self._tokens.append(created)
        out, err = normal(self._without_tokens(ran.out)), normal(self._without_tokens(ran.err))
        lines = [*(out if in_order else sorted(out)), *(f"! {line}" for line in err)]
        return [*lines, *([f"exit {ran.code}"] if ran.code else [])]

    def _with_tokens(self, text: str) -> str:
        """Replace <ID n> and <HMAC n> by those of the token with that number."""
        return re.sub(r"<(ID|HMAC) (\d)>", lambda match: self._tokens[int(match[2]) - 1][match[1] == "HMAC"], text)

    def _without_tokens(self, text: str) -> str:
        for number, (token_id, hmac) in enumerate(self._tokens, 1):
            text = text.replace(token_id, f"<ID {number}>").replace(hmac, f"<HMAC {number}>")
        return text

    def _produce(self, topic: str, partition: str, count: str, first_ms: str, step_ms: str) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap})
        for number in range(int(count)):
            at = int(first_ms) + number * int(step_ms)
            producer.produce(topic, b"value %d" % number, partition=int(partition), timestamp=at)
            assert producer.flush(WAIT_S) == 0  # a batch each

    def _join(self, group: str, name: str, topic: str, protocol: str = "classic") -> list[str] | None:
        """Start a member, which reads all that there is, and commits. Returns the error if the group does not take the member."""
        settings = {"group.id": group, "client.id": name, "auto.offset.reset": "earliest", "enable.partition.eof": "true"}
        consumer = self._members[name] = Consumer({"bootstrap.servers": self._bootstrap, **settings, "group.protocol": protocol})
        consumer.subscribe([topic])
        ended: set[int] = set()
        deadline = time.monotonic() + (WAIT_S if protocol == "classic" else UNSERVED_S)
        while not ended or len(ended) < len(consumer.assignment()):
            message = consumer.poll(0.1)
            if time.monotonic() > deadline or (message and message.error() and message.error().code() != EOF):
                return ["refused"]
            if message is not None and message.error() is not None:
                ended.add(message.partition())
        consumer.commit(asynchronous=False)
        return None

    def _leave(self, name: str) -> None:
        self._members.pop(name).close()

    def close(self) -> None:
        for name in list(self._members):
            self._leave(name)
        self._tools.close()


def played(golden: Golden, bootstrap: str, folder: Path, settle_s: float = 0) -> Iterator[tuple[Step, list[str]]]:
    """Go through a whole story with the tools of a release, and return each step with its lines."""
    story = Story(ToolRunner(golden.tools, folder, has_archive=False), bootstrap, folder, settle_s)
    try:
        for step in steps(golden.tools, golden.story):
            yield step, story.play(step)
    finally:
        story.close()


class Golden(NamedTuple):
    """The output of the tools of one release about Apache Kafka of another."""

    tools: str
    broker: str
    story: str = TOOLS

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.story}-{self.tools}-kafka-{self.broker}.txt"

    def pages(self) -> list[list[str]]:
        """Return the lines of each step."""
        pages: list[list[str]] = []
        for line in self.path.read_text().splitlines():
            if MARK.match(line):
                pages.append([])
            pages[-1].append(line)
        return pages


GOLDEN: Final = (Golden("3.9.2", "3.9.2"), Golden("4.3.1", "3.9.2"), Golden("4.3.1", "4.3.1"))
OF_USERS: Final = Golden("3.9.2", "3.9.2", USERS)
SETTLE_S: Final = {TOOLS: 0.3, USERS: 1.0}
OVERRIDES: Final = {"group.initial.rebalance.delay.ms": "0"}

_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
WITH_LOGINS: Final = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{_PLAIN} required user_admin=a user_alice=b user_bob=c;",
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{_SCRAM} required;",
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "delegation.token.secret.key": "the brokers' secret",
}
"""The settings of both brokers in the story about users."""
OURS_WITH_LOGINS: Final = WITH_LOGINS | {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
}


def kafka_with_logins(port: int) -> dict[str, str]:
    """Return the settings of an Apache Kafka with a listener for the story about users beside the one at `port`."""
    controller, listeners = free_port(), f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{free_port()}"
    return WITH_LOGINS | {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
    }


def main() -> None:
    """Go through the stories with Apache Kafka, a new broker each time, and keep what the tools print; or only through the story
    that is named.
    """
    for golden in (*GOLDEN, OF_USERS):
        if sys.argv[1:] not in ([], [golden.story]):
            continue
        os.environ["PYBROKER_TEST_COMMAND"] = f"{sys.executable} -m testing.process.kafka_peer start --release {golden.broker}"
        with tempfile.TemporaryDirectory() as folder:
            port = free_port()
            broker = BrokerProcess(Path(folder) / "broker", OVERRIDES if golden.story == TOOLS else kafka_with_logins(port))
            broker.port = port
            try:
                broker.start()
                bootstrap = broker.bootstrap
                if golden.story == USERS:
                    bootstrap = broker.overrides["advertised.listeners"].rpartition("//")[2]
                pages = [page for _, page in played(golden, bootstrap, Path(folder), SETTLE_S[golden.story])]
            finally:
                broker.close()
        golden.path.write_text("".join(f"{line}\n" for page in pages for line in page))
        print(f"{golden.path}: {len(pages)} steps")


if __name__ == "__main__":
    main()
