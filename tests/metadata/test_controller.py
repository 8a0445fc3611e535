"""Topics are created once, deleted whole, and neither half way, whatever fails."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from pybroker.config.broker import BrokerConfig
from pybroker.metadata.controller import Controller
from pybroker.metadata.entries import encode_topic, topic_key
from pybroker.metadata.image import ClusterImage, ImageDelta, TopicImage
from pybroker.metadata.members import BrokerRegistration, BrokerSession
from pybroker.metadata.membership import go_live
from pybroker.metadata.new_topic import PARTITIONS_PER_REQUEST_MAX, NewTopic
from pybroker.metadata.producer_ids import BLOCK_SIZE
from pybroker.metadata.store import open_store
from pybroker.metadata.store.base import Conflict, Session, StoreError
from pybroker.metadata.store.memory import MemoryStore
from pybroker.model import ZERO_TOPIC_ID, BrokerId, TopicId, topic_id_parse
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from testing.scenes.members import add_live_broker

if TYPE_CHECKING:
    from pathlib import Path


async def controller(store: MemoryStore | None = None, *, brokers: int = 1, **config: Any) -> Controller:
    made = Controller(MemoryStore() if store is None else store, BrokerConfig(**config), broker_id=BrokerId(1), random=Random(3))
    await made.start()
    for broker_id in range(1, brokers + 1):
        await add_live_broker(made, BrokerRegistration(broker_id=BrokerId(broker_id), endpoints={}))
    return made


def new(name: str = "t", partitions: int = -1, factor: int = -1, **configs: str | None) -> NewTopic:
    dotted = {key.replace("_", "."): value for key, value in configs.items()}
    return NewTopic(name=name, partition_count=partitions, replication_factor=factor, configs=dotted)


def assigned(*brokers: tuple[int, tuple[int, ...]], partitions: int = -1, factor: int = -1) -> NewTopic:
    assignments = tuple((partition, tuple(map(BrokerId, ids))) for partition, ids in brokers)
    return NewTopic(name="t", partition_count=partitions, replication_factor=factor, assignments=assignments, configs={})


async def error_of(made: Controller, topic: NewTopic, *, validate_only: bool = False) -> tuple[ErrorCode, str] | None:
    (outcome,) = await made.create_topics([topic], validate_only=validate_only)
    assert (outcome.error is None) == (outcome.topic is not None)
    return None if outcome.error is None else (outcome.error.code, outcome.error.message)


class Failing(MemoryStore):
    """Refuses commits while `refuses`."""

    refuses = False

    async def _persist(self, changes: object, revision: int) -> None:
        if self.refuses:
            raise StoreError("the disk is full")


class Overtaken(MemoryStore):
    """A store in which another client commits an entry of `faster` before each commit."""

    def __init__(self) -> None:
        super().__init__()
        self.faster: list[dict[str, Any]] = []

    async def commit(
        self,
        *,
        puts: Mapping[str, bytes] | None = None,
        deletes: Collection[str] = (),
        compare: Mapping[str, int] | None = None,
        session: Session | None = None,
    ) -> int | Conflict:
        if self.faster:
            await super().commit(**self.faster.pop(0))
        return await super().commit(puts=puts, deletes=deletes, compare=compare, session=session)


@pytest.mark.parametrize(
    ("topic", "code", "text"),
    [
        (new(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        (new(".."), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '..' is not allowed"),
        (new("old"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'old' already exists."),
        (new("o.l_d"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'o.l_d' already exists."),
        (new("o_l.d"), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'o_l.d' collides with existing topic: o.l_d"),
        (
            new("__cluster_metadata"),
            ErrorCode.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (
            new(partitions=0),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (new(partitions=-2), ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
        (
            new(factor=0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            new(factor=-2, partitions=0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            new(factor=4),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            (
                "Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be reached because only "
                "3 broker(s) are registered."
            ),
        ),
        (
            new(partitions=PARTITIONS_PER_REQUEST_MAX + 1),
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        ),
        (new(partitions=2**31 - 1), ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."),
        (
            new(retention_ms=None, segment_ms=None),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms,segment.ms",
        ),
        (
            assigned((0, (1,)), factor=1),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            assigned((0, (1,)), partitions=1),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            assigned((0, (1,)), (0, (2,))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            assigned((0, ())),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            assigned((0, (1, 4))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 4, but no such broker is registered.",
        ),
        (
            assigned((0, (2, 1, 2))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 2 more than once.",
        ),
        (
            assigned((0, (1, 2)), (1, (3,))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            (
                "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with "
                "previous partitions, which have 2 replica(s)."
            ),
        ),
        (
            assigned((1, (1,)), (2, (1,))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
async def test_what_is_refused_and_how(topic: NewTopic, code: ErrorCode, text: str, validate_only: bool) -> None:
    made = await controller(brokers=3)
    await made.create_topics([new("old"), new("o.l_d")])
    before = made.image
    assert await error_of(made, topic, validate_only=validate_only) == (code, text)
    assert made.image is before


@pytest.mark.parametrize("configs", [{"no_such": "1"}, {"retention_ms": "x"}, {"cleanup_policy": "burn"}])
async def test_a_wrong_setting_is_refused_by_name(configs: dict[str, Any]) -> None:
    made = await controller()
    refusal = await error_of(made, new(**configs))
    assert refusal is not None
    assert refusal[0] == ErrorCode.INVALID_CONFIG
    assert next(iter(configs)).replace("_", ".") in refusal[1]


async def test_defaults_numbers_assignments_and_settings() -> None:
    made = await controller(brokers=3, num_partitions=4, default_replication_factor=2)
    topics = [new("defaults"), new("numbers", 5, 3), new("set", retention_ms="1000")]
    assert [outcome.error for outcome in await made.create_topics(topics)] == [None] * 3
    manual = NewTopic(name="manual", assignments=((1, (BrokerId(3), BrokerId(1))), (0, (BrokerId(2), BrokerId(3)))), configs={})
    assert (await made.create_topics([manual]))[0].error is None
    topics_now = made.image.topics
    assert [len(p.replicas) for p in topics_now["defaults"].partitions] == [2] * 4
    assert [{*p.replicas} for p in topics_now["numbers"].partitions] == [{1, 2, 3}] * 5
    assert [p.replicas for p in topics_now["manual"].partitions] == [(2, 3), (3, 1)]
    assert topics_now["set"].configs == {"retention.ms": "1000"}
    for topic in topics_now.values():
        assert all(
            (p.leader, p.leader_epoch, p.partition_epoch, p.isr) == (p.replicas[0], 0, 0, p.replicas) for p in topic.partitions
        )
    leaders = [p.leader for p in topics_now["numbers"].partitions]
    assert {*leaders[:3]} == {1, 2, 3}, "leaders go around"


async def test_some_of_a_request_may_fail_and_topics_of_one_request_collide() -> None:
    made = await controller()
    outcomes = await made.create_topics([new("a.b"), new(".."), new("a_b"), new("c")])
    assert [outcome.error and outcome.error.code for outcome in outcomes] == [
        None,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        None,
    ]
    assert made.image.topics.keys() == {"a.b", "c"}


async def test_validate_only_creates_nothing() -> None:
    made = await controller()
    (outcome,) = await made.create_topics([new(partitions=3)], validate_only=True)
    assert outcome.topic is not None
    assert len(outcome.topic.partitions) == 3
    assert not made.image.topics


async def test_fifty_clients_that_want_a_missing_topic_get_one() -> None:
    made, created = await controller(), list[TopicImage]()
    made.subscribe(lambda _old, _new, delta: created.extend(delta.added))
    responses = await asyncio.gather(*(made.create_missing_topics(["auto", f"own-{n}"]) for n in range(50)))
    assert len(created) == 51
    assert all(response["auto"].topic is made.image.topics["auto"] for response in responses)


async def test_the_coordinators_topics_get_their_own_settings() -> None:
    made = await controller(
        offsets_topic_num_partitions=7,
        offsets_topic_replication_factor=1,
        transaction_state_log_num_partitions=3,
        transaction_state_log_replication_factor=1,
        transaction_state_log_min_isr=1,
    )
    outcomes = await made.create_missing_topics(["__consumer_offsets", "__transaction_state"])
    assert not any(outcome.error for outcome in outcomes.values())
    offsets, transactions = made.image.topics["__consumer_offsets"], made.image.topics["__transaction_state"]
    assert (len(offsets.partitions), offsets.configs["cleanup.policy"], offsets.is_internal) == (7, "compact", True)
    assert (len(transactions.partitions), transactions.configs["cleanup.policy"]) == (3, "compact")


async def test_delete_and_create_again_at_once_gives_a_new_id() -> None:
    made, deltas = await controller(), list[ImageDelta]()
    await made.create_topics([new("t"), new("u")])
    made.subscribe(lambda _old, _new, delta: deltas.append(delta))
    old = made.image.topics["t"]
    outcomes = await made.delete_topics([old.topic_id, made.image.topics["u"].topic_id])
    assert [outcome.error for outcome in outcomes] == [None, None]
    await made.create_topics([new("t", 2)])
    assert made.image.topics["t"].topic_id != old.topic_id
    assert [([t.name for t in d.removed], [t.name for t in d.added]) for d in deltas] == [(["t", "u"], []), ([], ["t"])]
    (outcome,) = await made.delete_topics([old.topic_id])
    assert outcome.error is not None
    assert outcome.error.code == ErrorCode.UNKNOWN_TOPIC_ID
    assert "t" in made.image.topics


async def test_listeners_run_with_the_new_image_before_the_response() -> None:
    made, seen = await controller(), []

    def listener(old: ClusterImage, image: ClusterImage, delta: ImageDelta) -> None:
        assert made.image is image
        seen.append((sorted(old.topics), sorted(image.topics), [topic.name for topic in delta.added]))

    made.subscribe(listener)
    await made.create_topics([new("t")])
    assert seen == [([], ["t"], ["t"])]


@pytest.mark.parametrize(
    ("failure", "has_traceback"),
    [(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full"), False), (ValueError("a bug"), True)],
)
async def test_a_disk_that_refuses_a_topic_is_one_line_in_the_log(
    failure: Exception, *, has_traceback: bool, caplog: pytest.LogCaptureFixture
) -> None:
    made = await controller(MemoryStore())

    def fails(_old: ClusterImage, _new: ClusterImage, delta: ImageDelta) -> None:
        if delta.added:
            raise failure

    made.subscribe(fails)
    caplog.set_level("WARNING")
    await made.create_topics([new("t")])
    assert [record.exc_info is not None for record in caplog.records] == [has_traceback]


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (OSError("no space"), ErrorCode.KAFKA_STORAGE_ERROR),
        (KafkaError(ErrorCode.LOG_DIR_NOT_FOUND), ErrorCode.LOG_DIR_NOT_FOUND),
        (ValueError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_topics_that_a_listener_cannot_take_are_taken_back(failure: Exception, code: ErrorCode) -> None:
    store = MemoryStore()
    made = await controller(store)
    first: set[str] = set()

    def takes(_old: ClusterImage, _new: ClusterImage, delta: ImageDelta) -> None:
        first.update(topic.name for topic in delta.added)
        first.difference_update(topic.name for topic in delta.removed)

    def fails(_old: ClusterImage, _new: ClusterImage, delta: ImageDelta) -> None:
        if any(topic.name == "bad" for topic in delta.added):
            raise failure

    made.subscribe(takes)
    made.subscribe(fails)
    await made.create_topics([new("before")])
    outcomes = await made.create_topics([new("bad"), new("good"), new("..")])
    assert [outcome.error and outcome.error.code for outcome in outcomes] == [code, code, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert made.image.topics.keys() == first == {"before"}
    assert [entry.key for entry in (await store.list("topics/")).entries] == [topic_key("before")]
    assert (await made.create_topics([new("good")]))[0].error is None


async def test_a_disk_that_refuses_again_and_again_is_one_line_until_a_topic_can_be_created(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = await controller(MemoryStore())
    is_full = True

    def listener(_old: ClusterImage, _new: ClusterImage, delta: ImageDelta) -> None:
        if delta.added and is_full:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")

    made.subscribe(listener)
    caplog.set_level("WARNING")
    for _ in range(3):
        await made.create_topics([new("t")])
    assert len(caplog.records) == 1
    is_full = False
    await made.create_topics([new("t")])
    is_full = True
    await made.create_topics([new("u")])
    await made.create_topics([new("u")])
    assert len(caplog.records) == 2


async def test_a_deletion_stands_when_a_listener_fails() -> None:
    made = await controller()
    await made.create_topics([new("t")])

    def fails(_old: ClusterImage, _new: ClusterImage, _delta: ImageDelta) -> None:
        raise OSError("busy")

    made.subscribe(fails)
    (outcome,) = await made.delete_topics([made.image.topics["t"].topic_id])
    assert outcome.error is None
    assert not made.image.topics


async def test_a_store_that_refuses_gives_an_error_and_changes_nothing() -> None:
    store = Failing()
    made = await controller(store)
    await made.create_topics([new("t")])
    store.refuses = True
    assert await error_of(made, new("u")) == (ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")
    (outcome,) = await made.delete_topics([made.image.topics["t"].topic_id])
    assert outcome.error is not None
    assert outcome.error.code == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        await made.producer_ids.next()
    assert made.image.topics.keys() == {"t"}
    store.refuses = False
    assert await error_of(made, new("u")) is None
    assert await made.producer_ids.next() == 0


async def test_a_commit_that_is_overtaken_is_decided_again() -> None:
    store = Overtaken()
    made, other = await controller(store), await controller(store)
    await other.create_topics([new("mine")])
    assert made.image.topics == other.image.topics, "both follow the store"
    theirs = replace(made.image.topics["mine"], name="t", topic_id=TopicId(b"t" * 16))
    store.faster = [{"puts": {topic_key("t"): encode_topic(theirs)}}]
    assert await error_of(made, new("t")) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")
    store.faster = [{"deletes": ["topics/mine"]}]
    (outcome,) = await made.delete_topics([made.image.topics["mine"].topic_id])
    assert outcome.error is not None
    assert outcome.error.code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_cancelled_request_is_finished_all_the_same() -> None:
    made = await controller()
    waiting = asyncio.ensure_future(made.create_topics([new("t")]))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await error_of(made, new("t")) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")


async def test_the_cluster_survives_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'metadata.db'}"
    images, ids = [], list[int]()
    for _ in range(3):
        store = open_store(url)
        made = Controller(store, BrokerConfig(), broker_id=BrokerId(1))
        await made.start()
        images.append(made.image)
        await made.register_broker(BrokerRegistration(broker_id=BrokerId(1), endpoints={}))
        await go_live(made, store, BrokerSession(directory="d", host="h", started_ms=0), BrokerConfig())
        await made.create_missing_topics(["t"])
        ids += [await made.producer_ids.next() for _ in range(3)]
        await store.close()
    assert images[1].topics.keys() == {"t"}
    assert images[1].topics == images[2].topics
    assert ({*images[1].registered}, {*images[1].brokers}) == ({1}, set())
    assert images[2].revision - images[1].revision == 2, "a life of the broker, in memory, and producer ids"
    assert len({image.cluster_id for image in images}) == 1
    assert len(topic_id_parse(images[0].cluster_id)) == 16
    assert ids == [0, 1, 2, 1000, 1001, 1002, 2000, 2001, 2002]


async def test_a_new_cluster_takes_the_id_it_is_given_and_an_old_one_keeps_its_own() -> None:
    store = MemoryStore()
    for given in ["first", "second"]:
        made = Controller(store, BrokerConfig(), broker_id=BrokerId(1))
        await made.start(cluster_id=given)
        assert made.image.cluster_id == "first"


async def test_producer_ids_of_many_callers_and_brokers_are_distinct() -> None:
    store = MemoryStore()
    one, other = await controller(store), await controller(store)
    callers = [source.producer_ids.next() for _ in range(BLOCK_SIZE + 5) for source in (one, other)]
    ids = await asyncio.gather(*callers)
    assert len({*ids}) == 2 * (BLOCK_SIZE + 5)
    assert max(ids) < 4 * BLOCK_SIZE


async def test_no_topic_has_the_id_of_none() -> None:
    made = await controller()
    (outcome,) = await made.delete_topics([ZERO_TOPIC_ID])
    assert outcome.error is not None
    assert outcome.error.code == ErrorCode.UNKNOWN_TOPIC_ID
