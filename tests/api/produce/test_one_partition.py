"""The forms of a Produce's response: what a form gives is what the codec encodes."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.api.produce import _one_partition_python, one_partition
from pybroker.model import Offset, TopicPartition
from pybroker.protocol.codec import encode_response, message_versions
from pybroker.protocol.error_codes import ErrorCode
from pybroker.replication.produce_data import PartitionProduceResult

LOWEST, _ = message_versions(0)
BUILDS = [
    pytest.param(_one_partition_python, id="python"),
    pytest.param(one_partition, id="native", marks=pytest.mark.skipif(not one_partition.IS_NATIVE, reason="not built")),
]
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("version", range(LOWEST, 13))
@given(
    values=st.tuples(INT32, INT32, INT64, INT64, INT64),
    name_size=st.sampled_from([1, 20, 127, 249]),
    letter=st.sampled_from("a-Zé"),
)
@settings(deadline=None, max_examples=20)
def test_a_filled_form_is_what_the_codec_encodes(
    build: ModuleType, version: int, values: tuple[int, int, int, int, int], name_size: int, letter: str
) -> None:
    correlation_id, index, base_offset, log_append_time_ms, log_start_offset = values
    name = letter * name_size
    form = build.ResponseForm(version, len(name.encode()))
    for number in (7, base_offset):  # nothing of the response before remains
        result = PartitionProduceResult(ErrorCode.NONE, Offset(number), log_append_time_ms, Offset(log_start_offset))
        filled = form.filled(correlation_id, name.encode(), index, number, log_append_time_ms, log_start_offset)
        assert [filled] == encode_response(one_partition.only(TopicPartition(name, index), result), version, correlation_id)
