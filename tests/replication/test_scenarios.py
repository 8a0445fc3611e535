"""Scenarios in which replicas of others have lost records or have come apart, each under the name that it has there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.model import BrokerId, CoordinatorEpoch, LeaderEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from testing.scenes.api import records
from testing.scenes.api.whole import NOW_MS
from testing.scenes.replication.replicas import LAG_MS_MAX, Replicas


@pytest.fixture
async def replicas(tmp_path: Path) -> Replicas:
    return await Replicas(tmp_path).start()


async def test_a_produce_is_on_all_replicas_and_the_high_watermark_moves(replicas: Replicas) -> None:
    replicas.produce(1, b"a", b"b")
    assert replicas.partition(1).high_watermark == 0
    await replicas.settle()
    assert replicas.offsets() == [2, 2, 2]
    assert replicas.partition(3).high_watermark == 2


async def test_kip_101_scenario_1_a_restarted_follower_that_becomes_the_leader_keeps_what_was_acknowledged(
    replicas: Replicas,
) -> None:
    replicas.produce(1, b"m1")
    await replicas.settle()
    replicas.produce(1, b"m2")
    await replicas.fetch(2)
    await replicas.fetch(3)
    await replicas.fetch(3)
    await replicas.fetch(2)
    assert replicas.partition(1).high_watermark == 2
    await replicas.start_again(2, high_watermark=1)
    await replicas.elect(2, isr=(2, 3))
    assert replicas.partition(2).log.log_end_offset == 2
    await replicas.settle()
    assert replicas.offsets() == [2, 2, 2]


async def test_kip_101_scenario_2_logs_agree_after_a_leader_lost_records_that_others_have(replicas: Replicas) -> None:
    replicas.produce(1, b"m1", b"m2")
    await replicas.settle()
    replicas.lose(2, 1)
    await replicas.start_again(2, high_watermark=1)
    await replicas.elect(2, isr=(2,))
    replicas.produce(2, b"m3")
    await replicas.start_again(1, high_watermark=2)
    await replicas.settle()
    assert replicas.offsets() == [2, 2, 2]


async def test_liftbridge_38_no_record_above_its_high_watermark_is_dropped_by_a_follower(replicas: Replicas) -> None:
    replicas.produce(1, b"a", b"b", b"c")
    await replicas.fetch(2)
    assert (replicas.partition(2).log.log_end_offset, replicas.partition(2).high_watermark) == (3, 0)
    await replicas.elect(3, isr=(3,))
    await replicas.elect(2, isr=(2,))
    assert replicas.partition(2).log.log_end_offset == 3
    await replicas.elect(1, isr=(1, 2))
    await replicas.settle()
    assert replicas.offsets() == [3, 3, 3]


async def test_a_follower_that_drops_records_takes_the_transactions_below_its_high_watermark_as_replicated(
    replicas: Replicas,
) -> None:
    of: dict[str, Any] = {"producer_id": ProducerId(7), "producer_epoch": ProducerEpoch(0), "leader_epoch": LeaderEpoch(0)}
    batch = build_batch([Record(Offset(0), NOW_MS, None, b"a")], base_sequence=0, is_transactional=True, **of)
    commit = TransactionMarker(ControlType.COMMIT, CoordinatorEpoch(0))
    marker = build_transaction_marker(commit, timestamp_ms=NOW_MS, offset=Offset(1), **of)
    log = replicas.partition(1).log
    log.append_as_follower(memoryview(batch + marker), NOW_MS)
    await replicas.settle()
    replicas.produce(1, b"b")
    await replicas.fetch(2)
    follower = replicas.partition(2)
    assert (follower.log.log_end_offset, follower.high_watermark, follower.last_stable_offset) == (3, 2, 2)
    await replicas.elect(3, isr=(3,))
    replicas.produce(3, b"c")
    await replicas.fetch(2)
    assert (follower.log.log_end_offset, follower.last_stable_offset) == (2, 2)


@pytest.mark.parametrize("more", [0, 1, 3])
async def test_kip_279_logs_agree_after_consecutive_unclean_elections(replicas: Replicas, more: int) -> None:
    replicas.produce(1, b"a")
    await replicas.settle()
    for leader in (1, 2, 3, 1, 2):  # each alone has what it writes in its epoch
        await replicas.elect(leader, isr=(leader,))
        replicas.produce(leader, *[b"%d" % leader] * (leader + more))
    await replicas.elect(3, isr=(3,))
    replicas.produce(3, b"end")
    end = replicas.partition(3).log.log_end_offset
    await replicas.settle()
    assert replicas.offsets() == [end] * 3


async def test_a_leader_that_wrote_nothing_leaves_no_epoch_before_the_records_of_an_older_one(replicas: Replicas) -> None:
    replicas.produce(1, b"a")
    await replicas.settle()
    replicas.produce(1, b"b")  # which broker 2 does not have
    await replicas.fetch(3)
    older = replicas.image.leader_epoch
    await replicas.elect(2, isr=(2, 3))
    await replicas.elect(3, isr=(2, 3))
    await replicas.fetch(2)
    replicas.produce(3, b"c")
    await replicas.settle()
    assert replicas.offsets() == [3, 3, 3]
    ends = [replicas.partition(broker).log.end_offset_for_epoch(older) for broker in (1, 2, 3)]
    assert ends == [(older, 2)] * 3


async def test_kafka_10706_elections_without_records_end_in_agreement(replicas: Replicas) -> None:
    replicas.produce(1, b"a")
    await replicas.settle()
    for leader in (2, 3, 1, 2, 3, 2):
        await replicas.elect(leader, isr=(1, 2, 3))
        for follower in {1, 2, 3} - {leader}:
            assert await replicas.fetch(follower)
        assert replicas.offsets() == [1, 1, 1]
    replicas.produce(2, b"b")
    await replicas.settle()


async def test_kafka_15608_a_log_that_moved_to_another_directory_keeps_the_epoch_in_which_its_leader_has_not_written(
    replicas: Replicas,
) -> None:
    replicas.produce(1, b"a")
    await replicas.settle()
    await replicas.elect(2, isr=(1, 2, 3))
    partition = replicas.partition(2)
    partition.log.epochs._leading = None  # as of a log that was opened elsewhere
    partition.replace_log(partition.log)
    assert partition.log.end_offset_for_epoch(partition.leader_epoch) == (partition.leader_epoch, 1)
    await replicas.settle()


async def test_an_unclean_leader_cuts_the_high_watermark_of_a_follower_with_its_log(replicas: Replicas) -> None:
    replicas.produce(1, b"a", b"b", b"c")
    await replicas.settle()
    replicas.lose(3, 1)
    await replicas.start_again(3, high_watermark=1)
    await replicas.elect(3, isr=(3,))
    await replicas.fetch(1)
    partition = replicas.partition(1)
    assert (partition.log.log_end_offset, partition.high_watermark) == (1, 1)


async def test_a_follower_behind_the_leaders_log_begins_where_that_begins(replicas: Replicas) -> None:
    replicas.produce(1, b"a", b"b", b"c", b"d")
    await replicas.fetch(3)
    await replicas.fetch(3)
    await replicas.decide(isr=(1, 3))
    log = replicas.partition(1).log
    log.increment_log_start_offset(Offset(2), high_watermark=Offset(4))
    assert await replicas.fetch(2), "out of range"
    assert not await replicas.fetch(2), "where the leader's log begins"
    assert await replicas.fetch(2)
    follower = replicas.partition(2).log
    assert (follower.log_start_offset, follower.log_end_offset) == (2, 4)
    assert replicas.written(1).endswith(replicas.written(2))


async def test_a_follower_begins_with_the_batch_that_has_the_start_of_the_leaders_log(replicas: Replicas) -> None:
    batch = records.batch_of_values(b"a", b"b", b"c", b"d")
    replicas.partition(1).append_records_to_leader(memoryview(bytearray(batch)), 1, replicas.clock.time_ms())
    await replicas.fetch(3)
    await replicas.fetch(3)
    await replicas.decide(isr=(1, 3))
    replicas.produce(1, b"e")
    await replicas.fetch(3)
    await replicas.fetch(3)
    replicas.partition(1).log.increment_log_start_offset(Offset(2), high_watermark=Offset(5))
    assert await replicas.fetch(2), "out of range"
    assert not await replicas.fetch(2), "where the leader's log begins"
    assert await replicas.fetch(2)
    follower = replicas.partition(2).log
    assert (follower.log_start_offset, follower.log_end_offset) == (2, 5)
    assert replicas.written(1) == replicas.written(2)


async def test_an_empty_follower_behind_the_end_of_an_unclean_leader_copies_that_from_its_start(replicas: Replicas) -> None:
    replicas.produce(1, b"a", b"b")
    await replicas.fetch(3)
    replicas.produce(1, b"c", b"d")
    await replicas.decide(isr=(1,))
    log = replicas.partition(1).log
    log.increment_log_start_offset(Offset(4), high_watermark=Offset(4))
    assert await replicas.fetch(2), "out of range"
    assert not await replicas.fetch(2), "where the leader's log begins"
    assert replicas.partition(2).log.log_end_offset == 4
    await replicas.elect(3, isr=(3,))
    assert await replicas.fetch(2), "out of range, without an epoch that the leader could end"
    assert not await replicas.fetch(2), "where the leader's log begins"
    assert await replicas.fetch(2)
    follower = replicas.partition(2)
    assert (follower.log.log_start_offset, follower.log.log_end_offset, follower.high_watermark) == (0, 2, 2)
    assert replicas.written(2) == replicas.written(3)
    await replicas.fetch(1)
    assert replicas.partition(1).high_watermark == replicas.partition(1).log.log_start_offset == 2, "cut before its start"


# In-sync replicas


async def test_fluss_3698_a_new_leader_takes_no_follower_out_before_it_could_fetch(replicas: Replicas) -> None:
    replicas.produce(1, b"a")
    await replicas.settle()
    replicas.clock.advance(10 * LAG_MS_MAX)
    await replicas.elect(2, isr=(1, 2, 3))
    replicas.partition(2).check_isr()
    assert not replicas.proposed
    replicas.clock.advance(LAG_MS_MAX + 1)
    replicas.produce(2, b"b")
    replicas.partition(2).check_isr()
    ((change, _),) = replicas.proposed
    assert change.isr == (2,)


async def test_kafka_13091_the_high_watermark_moves_when_a_follower_has_left(replicas: Replicas) -> None:
    replicas.produce(1, b"a")
    await replicas.fetch(2)
    await replicas.fetch(2)
    assert replicas.partition(1).high_watermark == 0
    replicas.clock.advance(LAG_MS_MAX + 1)
    await replicas.fetch(2)
    replicas.partition(1).check_isr()
    ((change, _),) = replicas.proposed
    assert change.isr == (1, 2)
    assert replicas.partition(1).high_watermark == 0, "it is not decided"
    await replicas.grant()
    assert replicas.partition(1).high_watermark == 1


async def test_kip_497_the_replicas_of_a_proposed_isr_count_before_it_is_decided(replicas: Replicas) -> None:
    await replicas.decide(isr=(1, 2))
    replicas.produce(1, b"a")
    await replicas.fetch(2)
    await replicas.fetch(3)
    await replicas.fetch(3)
    ((change, done),) = replicas.proposed
    assert change.isr == (1, 2, 3)
    assert change.added == ((3, replicas.epoch_of(3)),)
    replicas.produce(1, b"b")
    await replicas.fetch(2)
    await replicas.fetch(2)
    assert replicas.partition(1).high_watermark == 1, "broker 3 may be in sync already, and has one record"
    done(False)
    replicas.clock.advance(LAG_MS_MAX + 1)
    await replicas.fetch(2)
    assert replicas.partition(1).high_watermark == 2


async def test_kip_966_the_high_watermark_waits_for_eligible_leaders_and_for_the_cluster_to_forget_them(
    replicas: Replicas,
) -> None:
    await replicas.decide(isr=(1,), elr=(2, 3))
    replicas.produce(1, b"a")
    partition = replicas.partition(1)
    assert partition.high_watermark == 0, "one of the others may be elected"
    partition.check_isr()
    ((change, _),) = replicas.proposed
    assert (change.isr, change.added) == ((1,), ()), "one replica is enough for this topic"
    partition.check_isr()
    assert len(replicas.proposed) == 1
    await replicas.decide(isr=(1,), elr=())
    assert partition.high_watermark == 1


async def test_kafka_12686_the_outcome_of_a_proposal_changes_nothing_in_a_later_leadership(replicas: Replicas) -> None:
    await replicas.decide(isr=(1, 2))
    await replicas.fetch(3)
    ((_, done),) = replicas.proposed
    await replicas.elect(2, isr=(1, 2))
    await replicas.elect(1, isr=(1, 2))
    await replicas.fetch(3)
    assert len(replicas.proposed) == 2, "a new leader makes a proposal of its own"
    done(False)
    followers = replicas.partition(1).followers
    assert followers is not None
    assert followers.proposed is not None
    assert replicas.partition(1).isr == (1, 2)
    await replicas.fetch(3)
    assert len(replicas.proposed) == 2, "one change is under way at a time"


async def test_kafka_15221_a_fetch_from_before_a_restart_brings_no_follower_into_the_isr(replicas: Replicas) -> None:
    await replicas.decide(isr=(1, 2))
    request = replicas.request(3)
    await replicas.live_again(3)
    await replicas.response(request)
    assert not replicas.proposed
    await replicas.start_again(3)
    await replicas.fetch(3)
    ((change, _),) = replicas.proposed
    assert change.added == ((3, replicas.epoch_of(3)),)
    followers = replicas.partition(1).followers
    assert followers is not None
    replicas.produce(1, b"a")
    await replicas.response(request)
    assert followers[BrokerId(3)].broker_epoch == replicas.epoch_of(3), "the older life is not counted any more"


async def test_kafka_15021_the_high_watermark_waits_for_no_replica_that_may_not_join(replicas: Replicas) -> None:
    await replicas.decide(isr=(1, 2))
    await replicas.fetch(3)
    replicas.proposed.pop()[1](False)
    await replicas.die(3)
    replicas.produce(1, b"a")
    await replicas.fetch(2)
    await replicas.fetch(2)
    assert replicas.partition(1).high_watermark == 1


async def test_kafka_14154_a_leader_that_was_replaced_proposes_nothing_and_follows(replicas: Replicas) -> None:
    replicas.produce(1, b"a")
    await replicas.settle()
    replicas.produce(1, b"b")
    replicas.clock.advance(LAG_MS_MAX + 1)
    replicas.partition(1).check_isr()
    ((_, done),) = replicas.proposed
    await replicas.elect(2, isr=(2, 3))
    done(False)
    replicas.partition(1).check_isr()
    assert len(replicas.proposed) == 1
    assert replicas.partition(1).check_replicated(Offset(2)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await replicas.settle()


async def test_a_lost_session_ends_leading_until_an_election_after_it(replicas: Replicas) -> None:
    replicas.produce(1, b"a")
    replicas.brokers[1].replicas.step_down()
    assert replicas.partition(1).check_replicated(Offset(1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await replicas.decide(isr=(1, 2))
    assert not replicas.partition(1).is_leader, "it may be news from before"
    await replicas.elect(1, isr=(1, 2))
    assert not replicas.partition(1).is_leader, "it was elected before the session ended, and learns so late"
    replicas.brokers[1].replicas.lead_again()
    await replicas.decide(isr=(1, 3))
    assert not replicas.partition(1).is_leader
    await replicas.elect(1, isr=(1, 2))
    assert replicas.partition(1).is_leader


async def test_redpanda_16475_a_follower_shows_readers_nothing_that_is_not_on_all_in_sync(replicas: Replicas) -> None:
    replicas.produce(1, b"a", b"b")
    await replicas.fetch(2)
    await replicas.fetch(2)
    assert replicas.partition(2).log.log_end_offset == 2
    assert replicas.partition(2).high_watermark == 0
    await replicas.elect(3, isr=(3,))
    await replicas.fetch(2)
    assert replicas.partition(2).log.log_end_offset == 0
    assert replicas.partition(2).high_watermark == 0


async def test_a_response_in_an_older_leader_epoch_is_not_followed(replicas: Replicas) -> None:
    replicas.produce(1, b"a")
    request = replicas.request(2)
    response = await replicas.response(request)
    await replicas.elect(3, isr=(2, 3))
    replicas.follow(2, request, response)
    assert replicas.partition(2).log.log_end_offset == 0
