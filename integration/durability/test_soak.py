"""Short stories of `soak.py`: hypothesis chooses the steps, and shortens a story that fails as far as it can."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from integration.durability.soak import GROUPS, NAMES, SETTINGS, Soak, Story
from pybroker.records.compression import CompressionType
from testing.process.broker import is_kafka

pytestmark = pytest.mark.skipif(is_kafka(), reason="needs brokers that it may kill, in our data directories")

EXAMPLES, STEPS = 3, 25
SOME_NAME, NUMBER, SHARE, SEED = st.sampled_from(NAMES[:2]), st.integers(0, 1), st.floats(0, 1), st.integers(0, 1 << 20)
SETTING = st.sampled_from([(key, value) for key, found in SETTINGS.items() for value in found])


class SoakMachine(RuleBasedStateMachine):
    """A story with two topics, which are deleted and created again and again."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="soak-"))
        self.soak = Soak(self.folder)
        self.soak.create(NAMES[0], 2, is_compacted=False)

    def teardown(self) -> None:
        if hasattr(self, "soak"):
            self.soak.close()
            shutil.rmtree(self.folder)

    def _there(self, topic: str) -> str:
        if topic not in self.soak.model.topics:
            self.soak.create(topic, 2, is_compacted=topic != NAMES[0])
        return topic

    @rule(topic=SOME_NAME, number=NUMBER, seed=SEED, count=st.integers(1, 12), codec=st.sampled_from(CompressionType))
    def produce(self, topic: str, number: int, seed: int, count: int, codec: CompressionType) -> None:
        self.soak.produce(self._there(topic), number, self.soak.pairs(seed, count, 100), codec)

    @rule(topic=SOME_NAME, number=NUMBER, seed=SEED, is_again=st.booleans())
    def produce_idempotently(self, topic: str, number: int, seed: int, is_again: bool) -> None:
        self.soak.produce_idempotently(self._there(topic), number, self.soak.pairs(seed, 3, 100), is_again=is_again)

    @rule(topic=SOME_NAME, number=NUMBER, share=SHARE, bytes_max=st.sampled_from([1, 500, 1 << 20]))
    def fetch(self, topic: str, number: int, share: float, bytes_max: int) -> None:
        self.soak.fetch(self._there(topic), number, share, bytes_max)

    @rule(topic=SOME_NAME, number=NUMBER, share=SHARE)
    def delete_records(self, topic: str, number: int, share: float) -> None:
        self.soak.delete_records(self._there(topic), number, share)

    @rule(topic=SOME_NAME, setting=SETTING)
    def configure(self, topic: str, setting: tuple[str, str]) -> None:
        self.soak.configure(self._there(topic), *setting)

    @rule(group=st.sampled_from(GROUPS), topic=SOME_NAME, number=NUMBER, offset=st.integers(0, 1000))
    def commit(self, group: str, topic: str, number: int, offset: int) -> None:
        self.soak.commit(group, self._there(topic), number, offset)

    @rule(topic=SOME_NAME)
    def create_again(self, topic: str) -> None:
        self.soak.create_again(self._there(topic))

    @precondition(lambda self: len(self.soak.notes) > 5)
    @rule()
    def restart(self) -> None:
        self.soak.restart()

    @precondition(lambda self: len(self.soak.notes) > 5)
    @rule(topic=SOME_NAME, number=NUMBER, seed=SEED, delay_s=st.floats(0, 0.02))
    def kill(self, topic: str, number: int, seed: int, delay_s: float) -> None:
        batches = [self.soak.pairs(seed + n, 5, 100) for n in range(20)]
        self.soak.kill_while_producing(self._there(topic), number, batches, delay_s)


def test_a_broker_has_what_it_acknowledged() -> None:
    chosen = settings(max_examples=EXAMPLES, stateful_step_count=STEPS, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(SoakMachine, settings=chosen)


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("a record that was never written", lambda one: one.written.update({0: (b"other", b"value")})),
        ("a missing record", lambda one: one.append(one.end, [(b"key", b"never sent")])),
        ("another start", lambda one: setattr(one, "start", 1)),
    ],
)
def test_a_difference_is_found(name: str, spoil: Callable[[Any], None], tmp_path: Path) -> None:
    soak = Soak(tmp_path)
    try:
        soak.create(NAMES[0], 1, is_compacted=False)
        soak.produce(NAMES[0], 0, soak.pairs(1, 3, 20), CompressionType.NONE)
        soak.check()
        spoil(soak.model.topics[NAMES[0]].partitions[0])
        with pytest.raises(AssertionError, match="apple-0"):
            soak.check()
    finally:
        soak.close()


def test_a_seed_repeats_its_story(tmp_path: Path) -> None:
    notes = []
    for number in range(2):
        soak = Soak(tmp_path / str(number))
        story = Story(soak, 848)
        try:
            for _ in range(15):
                story.step()
        finally:
            soak.close()
        notes.append(list(soak.notes))
    assert notes[0] == notes[1]
