"""The model log that the other tests use behaves as a real log does."""

from __future__ import annotations

import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.clock import ManualClock
from pybroker.config.topic import TopicConfig
from pybroker.log.log_state import LogServices
from pybroker.log.manager.manager import LogManager
from pybroker.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from pybroker.protocol.error_codes import KafkaError
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from testing.scenes.replication.model_log import ModelLog
from testing.scenes.replication.scene import topic_id


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(st.one_of(st.tuples(st.integers(1, 4), st.integers(0, 50)), st.just("roll")), max_size=8),
    reads=st.lists(st.tuples(st.integers(-1, 30), st.integers(0, 400), st.integers(0, 30), st.booleans()), max_size=30),
)
def test_reads_agree(steps: list[tuple[int, int] | str], reads: list[tuple[int, int, int, bool]]) -> None:
    clock = ManualClock(1_000_000)
    config = TopicConfig()
    with tempfile.TemporaryDirectory() as folder:
        services = LogServices(clock=clock)
        manager = LogManager([folder], cluster_id="c", node_id=BrokerId(1), services=services, config_of=lambda _: config)
        manager.start()
        real = manager.create(TopicPartition("t", 0), topic_id("t"), config)
        model = ModelLog(topic_id("t"))
        for step in steps:
            if isinstance(step, str):
                if real.log_end_offset != model.segments[-1]:
                    real.roll(clock.time_ms())
                model.roll()
                continue
            count, value_bytes = step
            batch = build_batch(Record(Offset(offset), 1_000_000, None, bytes(value_bytes), ()) for offset in range(count))
            info = real.append_as_leader(memoryview(batch), leader_epoch=LeaderEpoch(0), now_ms=clock.time_ms())
            model.add(len(batch), count)
            assert (info.first_offset, info.last_offset) == (model.batches[-1].base_offset, model.batches[-1].last_offset)
            assert real.end_offset_metadata == model.end_offset_metadata
        for offset, bytes_max, upper, min_one_batch in reads:
            upper_offset = min(upper, real.log_end_offset)
            responses: list[object] = []
            for log in (real, model):
                try:
                    got = log.read(
                        Offset(offset), bytes_max=bytes_max, upper_offset=Offset(upper_offset), min_one_batch=min_one_batch
                    )
                except KafkaError as error:
                    responses.append(error.code)
                else:
                    is_cut = got.size > 0 and got.is_first_incomplete
                    responses.append((got.size, got.offset_metadata, is_cut))
            assert responses[0] == responses[1]
        manager.stop()
