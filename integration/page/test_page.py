"""Every action of the page, clicked in a real browser, does what it is for."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from kafka import KafkaConsumer
from playwright.sync_api import expect

from integration.page.conftest import Shown
from pybroker.cli.main import cli
from pybroker.client.connection import Connection
from pybroker.client.frames import Frames
from pybroker.protocol.messages.list_offsets import ListOffsetsRequest
from pybroker.testing import Broker, ThreadBroker

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext


def filled(broker: ThreadBroker) -> None:
    broker.create_topic("orders", 2)
    for number in range(6):
        value = json.dumps({"order": number, "items": [1, 2]})
        broker.produce(
            "orders",
            value,
            key=f"user-{number}",
            partition=number % 2,
            headers={"trace": f"t{number}"},
            timestamp_ms=1_000 * number,
        )


def offsets_of_0(broker: ThreadBroker, client_id: str) -> None:
    """Send the request of an old client."""
    opened = socket.create_connection((broker.host, broker.port), timeout=20)
    with Frames(opened, address=broker.bootstrap, client_id=client_id) as frames:
        Connection(frames).call(ListOffsetsRequest(replica_id=-1, topics=[]), 0)


def test_the_overview_has_the_broker_and_its_cluster(broker: ThreadBroker, shown: Shown) -> None:
    filled(broker)
    shown.open()
    shown.page.locator(".card", has_text="Partitions").get_by_text("2", exact=True).wait_for()
    assert shown.row("PLAINTEXT").inner_text().split("\t")[2] == f"127.0.0.1:{broker.port}"
    assert "1, controller" in shown.page.inner_text("main")
    shown.picture("overview")


def test_a_topic_is_made_and_found(broker: ThreadBroker, shown: Shown) -> None:
    shown.open("topics")
    shown.page.get_by_text("There is no topic yet.").wait_for()
    shown.page.locator("summary", has_text="New topic").click()
    shown.page.get_by_label("Name", exact=True).fill("orders")
    shown.page.get_by_label("Partitions").fill("3")
    shown.page.get_by_label("Settings").fill("retention.ms = 1000\ncleanup.policy=compact")
    shown.press("Create")
    shown.notice("The topic orders is there")
    topic = broker.topics()["orders"]
    assert len(topic.partitions) == 3
    shown.open("topics", "orders", "settings")
    assert "1000" in shown.setting("retention.ms").inner_text()
    shown.open("topics")
    shown.page.locator("summary", has_text="New topic").click()
    shown.page.get_by_label("Name", exact=True).fill("orders")
    shown.press("Create")
    shown.notice("TOPIC_ALREADY_EXISTS")
    broker.create_topic("other")
    shown.row("other").wait_for()
    shown.page.get_by_label("Filter topics").fill("ord")
    assert shown.page.locator("tbody tr").count() == 1
    broker.produce("orders", *["x"] * 50, key="a")
    shown.row("/s").wait_for()
    shown.page.get_by_role("link", name="orders").click()
    shown.page.wait_for_selector("h1:has-text('orders')")


def test_sizes_groups_and_lag_are_in_the_row_of_a_topic(broker: ThreadBroker, shown: Shown) -> None:
    filled(broker)
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=broker.bootstrap, group_id="billing", auto_offset_reset="earliest", max_poll_records=2
    )
    assert consumer.poll(timeout_ms=20_000)
    consumer.commit()
    shown.open("topics")
    shown.row("orders").get_by_role("link", name="billing").wait_for()
    assert shown.row("orders").inner_text().split("\t")[-1] == "billing 4"
    assert not shown.page.get_by_text("__consumer_offsets").is_visible()
    shown.picture("topics")
    shown.page.get_by_label("Internal topics").check()
    shown.row("__consumer_offsets").wait_for()
    shown.row("orders").get_by_role("link", name="billing").click()
    shown.row("kafka-python").wait_for()
    shown.picture("group")
    consumer.close()


def test_records_are_found_and_shown_whole(broker: ThreadBroker, shown: Shown) -> None:
    filled(broker)
    shown.open("topics", "orders")
    shown.row("user-5").wait_for()
    shown.picture("records")
    assert shown.page.locator("tbody tr").count() == 6
    shown.page.get_by_label("Show", exact=True).select_option("an offset")
    shown.page.get_by_label("Offset", exact=True).fill("1")
    shown.press("Show")
    shown.notice("name the partition")
    shown.page.get_by_label("Partition", exact=True).first.fill("1")
    shown.press("Show")
    expect(shown.page.locator("tbody tr")).to_have_count(2)
    assert "user-3" in shown.page.inner_text("tbody")
    shown.page.get_by_label("Partition", exact=True).first.fill("")
    shown.page.get_by_label("Show", exact=True).select_option("a time")
    shown.page.get_by_label("Time in ").evaluate(
        "(input) => { const at = new Date(4000); at.setMinutes(at.getMinutes() - at.getTimezoneOffset());"
        " input.value = at.toISOString().slice(0, 23); }"
    )
    shown.press("Show")
    expect(shown.page.locator("tbody tr")).to_have_count(2)
    shown.row("user-4").wait_for()
    shown.page.get_by_label("Show", exact=True).select_option("the first ones")
    shown.press("Show")
    shown.row("user-0").wait_for()
    shown.page.get_by_label("Filter records").fill("user-3")
    assert shown.page.locator("tbody tr").count() == 1
    shown.press("Open")
    box = shown.page.locator("dialog")
    assert '"order": 3' in box.inner_text()
    assert "trace: t3" in box.inner_text()
    shown.page.keyboard.press("Escape")
    box.wait_for(state="detached")


@pytest.mark.parametrize(
    ("zone", "winter", "summer"),
    [
        ("Asia/Tokyo", "1970-01-02 09:00:00.000 +09:00", "1970-07-02 09:00:00.000 +09:00"),
        ("America/St_Johns", "1970-01-01 20:30:00.000 -03:30", "1970-07-01 21:30:00.000 -02:30"),
    ],
)
def test_times_have_the_zone_of_the_browser(
    broker: ThreadBroker, browser: Browser, tmp_path: Path, zone: str, winter: str, summer: str
) -> None:
    broker.create_topic("orders", 2)
    for partition, day in enumerate((1, 182)):
        broker.produce("orders", "x", partition=partition, timestamp_ms=day * 86_400_000)
    context = browser.new_context(timezone_id=zone)
    try:
        assert broker.admin_url is not None
        shown = Shown(context.new_page(), broker.admin_url, tmp_path).open("topics", "orders")
        shown.row(summer).wait_for()
        shown.row(winter).wait_for()
        shown.page.get_by_label("Show", exact=True).select_option("a time")
        expect(shown.page.get_by_label(f"Time in {zone}")).to_be_visible()
    finally:
        context.close()


def test_more_records_are_shown_on_demand(broker: ThreadBroker, shown: Shown) -> None:
    broker.produce("orders", *[str(number) for number in range(250)])
    shown.open("topics", "orders")
    shown.page.get_by_label("Show", exact=True).select_option("the first ones")
    shown.press("Show")
    shown.page.get_by_text("150 offsets are left").wait_for()
    shown.press("Show more")
    shown.page.get_by_text("50 offsets are left").wait_for()
    shown.press("Show more")
    shown.page.get_by_role("button", name="Show more").wait_for(state="hidden")
    shown.page.get_by_role("button", name="Show all").click()
    expect(shown.page.locator("tbody tr")).to_have_count(250)


def test_new_records_are_followed(broker: ThreadBroker, shown: Shown) -> None:
    filled(broker)
    shown.open("topics", "orders")
    shown.row("user-5").wait_for()
    shown.page.get_by_label("Follow new records").check()
    shown.page.get_by_text("There are no such records.").wait_for()
    broker.produce("orders", "first")
    shown.row("first").wait_for()
    broker.produce("orders", "second", partition=1)
    shown.row("second").wait_for()
    assert shown.page.locator("tbody tr").all_inner_texts()[0].split("\t")[4].strip() == "second"


def test_records_are_written_and_sent_again(broker: ThreadBroker, shown: Shown) -> None:
    broker.create_topic("orders", 2)
    broker.produce("orders", b"\xff\x00", key=b"\xfe", headers={"h": b"\xfd"})
    shown.open("topics", "orders")
    shown.page.locator("summary", has_text="Write a record").click()
    shown.page.get_by_label("Key", exact=True).fill("a")
    shown.page.get_by_label("Value", exact=True).fill("new")
    shown.page.get_by_label("Headers, one").fill("h: 1\nh: 2")
    shown.page.get_by_label("Partition", exact=True).last.fill("1")
    shown.press("Write")
    shown.notice("Written to partition 1 at offset 0")
    (one,) = broker.consume("orders", partition=1)
    assert (one.key, one.value, one.headers) == (b"a", b"new", (("h", b"1"), ("h", b"2")))
    shown.page.get_by_label("Without a value").check()
    shown.press("Write")
    shown.notice("at offset 1")
    assert broker.consume("orders", partition=1)[1].value is None
    shown.row("base64: /wA=").get_by_role("button", name="Open").click()
    shown.press("Send again")
    shown.press("Write")
    shown.notice("Written to partition 0 at offset 1")
    first, second = broker.consume("orders", partition=0)
    assert (second.key, second.value, second.headers) == (first.key, first.value, first.headers)


def exported(shown: Shown, path: Path) -> list[dict[str, Any]]:
    """Export a topic whose records are shown, and return the lines."""
    with shown.page.expect_download() as download:
        shown.press("Export")
    download.value.save_as(path)
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_records_are_exported_as_the_commands_write_and_read_them(broker: ThreadBroker, shown: Shown, tmp_path: Path) -> None:
    headers = [("h", b"\xfd"), ("h", None), ("h", b"text")]
    broker.produce("orders", b"\xff\x00", key=b"\xfe", headers=headers, timestamp_ms=1_000)
    broker.produce("orders", None, key="a", timestamp_ms=2_000)
    broker.produce("orders", "ä", timestamp_ms=3_000)
    shown.open("topics", "orders")
    shown.page.locator("summary", has_text="Export").click()
    found = exported(shown, tmp_path / "orders.jsonl")
    runner = CliRunner(env={"PYBROKER_BOOTSTRAP": broker.bootstrap})
    printed = runner.invoke(cli, ["consume", "orders", "--json"])
    assert found == [json.loads(line) for line in printed.output.splitlines()]
    written = runner.invoke(cli, ["produce", "copy", "--file", str(tmp_path / "orders.jsonl"), "--format", "json"])
    assert written.exit_code == 0, written.output
    assert [one._replace(topic="orders") for one in broker.consume("copy")] == broker.consume("orders")


def test_records_of_aborted_transactions_are_exported_on_demand_alone(broker: ThreadBroker, shown: Shown, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "shop"})
    producer.init_transactions(20)
    for value, end in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce("orders", value)
        assert producer.flush(20) == 0
        end(20)
    shown.open("topics", "orders")
    shown.row("aborted").wait_for()
    shown.page.locator("summary", has_text="Export").click()
    path = tmp_path / "orders.jsonl"
    assert [one["value"] for one in exported(shown, path)] == ["committed"]
    shown.page.get_by_label("Records of open and aborted transactions, too").check()
    assert [one["value"] for one in exported(shown, path)] == ["aborted", "committed"]


def test_records_are_exported_and_imported(broker: ThreadBroker, shown: Shown, tmp_path: Path) -> None:
    filled(broker)
    broker.produce("orders", b"\xff", timestamp_ms=9_000)
    broker.create_topic("copy", 2)
    shown.open("topics", "orders")
    shown.page.locator("summary", has_text="Export").click()
    path = tmp_path / "orders.jsonl"
    assert len(exported(shown, path)) == 7
    shown.open("topics", "copy")
    shown.page.locator("summary", has_text="Export").click()
    shown.press("Import")
    shown.notice("Choose a file first")
    shown.page.get_by_label("File to import").set_input_files(path)
    shown.press("Import")
    shown.notice("7 records are imported")
    first, second = ([one._replace(topic="") for one in broker.consume(name)] for name in ("orders", "copy"))
    assert first == second


def test_transactions_that_are_not_committed_are_hidden_and_aborted(broker: ThreadBroker, shown: Shown) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "shop"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("orders", b"open")
    assert producer.flush(20) == 0
    shown.open("topics", "orders")
    shown.row("open").wait_for()
    shown.page.get_by_label("Only committed transactions").check()
    shown.press("Show")
    shown.page.get_by_text("There are no such records.").wait_for()
    shown.open("transactions")
    shown.row("shop").get_by_text("Ongoing").wait_for()
    shown.picture("transactions")
    shown.row("shop").get_by_role("button", name="Abort").click()
    shown.press("Cancel")
    assert broker.transactions()["shop"].is_open
    shown.row("shop").get_by_role("button", name="Abort").click()
    shown.press("Abort")
    shown.notice("The transaction of shop is aborted")
    assert not broker.transactions()["shop"].is_open


def test_a_topic_gets_partitions_is_emptied_and_deleted(broker: ThreadBroker, shown: Shown) -> None:
    filled(broker)
    shown.open("topics", "orders", "partitions")
    expect(shown.page.locator("tbody tr")).to_have_count(2)
    shown.page.get_by_label("Partitions in all").fill("3")
    shown.press("Add partitions")
    shown.notice("The topic has 3 partitions")
    assert len(broker.topics()["orders"].partitions) == 3
    shown.page.locator("tbody tr").nth(1).get_by_role("button", name="Empty").click()
    shown.press("Delete the records")
    shown.notice("all records of partition 1 of orders are deleted")
    assert [one.start for one in broker.topics()["orders"].partitions] == [0, 3, 0]
    shown.press("Empty all partitions")
    shown.press("Delete the records")
    shown.notice("all records of orders are deleted")
    assert broker.consume("orders") == []
    shown.press("Delete the topic")
    shown.press("Cancel")
    assert "orders" in broker.topics()
    shown.press("Delete the topic")
    shown.press("Delete the topic")
    shown.notice("The topic orders is deleted")
    assert broker.topics() == {}
    shown.open("topics", "orders", "partitions")
    shown.page.locator("main", has_text="UNKNOWN_TOPIC_OR_PARTITION").wait_for()


def test_settings_are_changed_and_reset(broker: ThreadBroker, shown: Shown) -> None:
    broker.create_topic("orders")
    shown.open("topics", "orders", "settings")
    shown.setting("retention.ms").get_by_role("button", name="Change").click()
    shown.page.get_by_label("Value", exact=True).fill("x")
    shown.press("Save")
    shown.notice("INVALID_CONFIG")
    shown.page.get_by_label("Value", exact=True).fill("5000")
    shown.press("Save")
    shown.notice("The settings are changed")
    shown.setting("retention.ms").get_by_text("5000").wait_for()
    shown.setting("retention.ms").get_by_role("button", name="Reset").click()
    shown.setting("retention.ms").get_by_text("604800000").wait_for()


def test_batches_are_shown(broker: ThreadBroker, shown: Shown) -> None:
    filled(broker)
    shown.open("topics", "orders", "batches")
    shown.row("0 to 0").wait_for()
    shown.page.get_by_label("Partition", exact=True).fill("1")
    shown.page.get_by_label("From offset").fill("2")
    shown.press("Show")
    expect(shown.page.locator("tbody tr")).to_have_count(1)
    shown.row("2 to 2").wait_for()
    shown.picture("batches")


def test_a_group_is_moved_and_deleted(broker: ThreadBroker, shown: Shown) -> None:
    filled(broker)
    consumer = KafkaConsumer("orders", bootstrap_servers=broker.bootstrap, group_id="billing", auto_offset_reset="earliest")
    consumer.poll(timeout_ms=20_000)
    consumer.close()

    def offsets() -> list[int]:
        return [one.offset for one in broker.groups()["billing"].offsets.values()]

    assert offsets() == [3, 3]
    shown.open("groups")
    shown.page.get_by_role("link", name="billing").click()
    shown.page.get_by_label("Topic", exact=True).fill("orders")
    shown.press("Show the new offsets")
    shown.page.get_by_text("Would be reset to").wait_for()
    assert offsets() == [3, 3]
    for verb in ("Cancel", "Reset"):
        shown.press("Reset")
        expect(shown.page.locator("dialog pre")).to_have_text("orders 0: 0\norders 1: 0")
        assert offsets() == [3, 3]
        shown.press(verb)
    shown.notice("The offsets are reset")
    shown.page.get_by_text("Reset to").wait_for()
    assert offsets() == [0, 0]
    shown.page.get_by_label("To", exact=True).select_option("an offset")
    shown.page.get_by_label("Offset", exact=True).fill("2")
    shown.page.get_by_label("Partition", exact=True).fill("1")
    shown.press("Reset")
    expect(shown.page.locator("dialog pre")).to_have_text("orders 1: 2")
    shown.press("Reset")
    shown.page.get_by_text("Reset to orders 1: 2").wait_for()
    assert offsets() == [0, 2]
    shown.press("Delete the group")
    shown.press("Delete the group")
    shown.notice("The group billing is deleted")
    assert broker.groups() == {}


def test_a_group_that_has_committed_nothing_shows_no_lag(broker: ThreadBroker, shown: Shown) -> None:
    filled(broker)
    consumer = KafkaConsumer("orders", bootstrap_servers=broker.bootstrap, group_id="billing", enable_auto_commit=False)
    consumer.poll(timeout_ms=1_000)
    shown.open("groups")
    shown.row("billing").wait_for()
    assert shown.row("billing").inner_text().split("\t")[-1].strip() == "-"
    shown.page.get_by_role("link", name="billing").click()
    shown.page.locator(".card", has_text="Lag").get_by_text("-", exact=True).wait_for()
    consumer.close()


def test_clients_that_kafka_4_refuses_are_marked(broker: ThreadBroker, shown: Shown) -> None:
    offsets_of_0(broker, "old")
    shown.open("clients")
    shown.row("old").get_by_text("ListOffsets v0 (Kafka 4 begins with v1)").wait_for()
    shown.picture("clients")


def test_requests_are_found(broker: ThreadBroker, shown: Shown) -> None:
    for name in ("one", "two"):
        offsets_of_0(broker, name)
    shown.open("requests")
    shown.row("two").wait_for()
    shown.page.get_by_label("Client id").fill("o*")
    shown.press("Show")
    shown.page.get_by_text("1 of the requests that are kept fit.").wait_for()
    assert "two" not in shown.page.inner_text("tbody")


def test_rules_are_added_and_removed_and_the_broker_is_reset(broker: ThreadBroker, shown: Shown) -> None:
    filled(broker)
    shown.open("faults")
    shown.press("Add")
    shown.row("NOT_LEADER_OR_FOLLOWER").wait_for()
    assert len(broker.faults.rules) == 1
    shown.picture("faults")
    shown.page.get_by_label("The rule as JSON").fill("{")
    shown.press("Add")
    shown.notice("The rule is not JSON")
    shown.press("Remove")
    shown.page.get_by_text("There is no rule").wait_for()
    assert not broker.faults.rules
    shown.press("Reset the broker")
    shown.press("Reset")
    shown.notice("The broker is empty")
    assert broker.topics() == {}


def test_time_passes(broker: ThreadBroker, shown: Shown) -> None:
    shown.open("clock")
    shown.page.get_by_label("By, such as").fill("1d")
    shown.press("Advance")
    shown.notice("1d have passed")
    shown.page.get_by_text("86,400,000 ms").first.wait_for()


def test_a_token_is_asked_for_once(context: BrowserContext, tmp_path: Path) -> None:
    settings = {"pybroker.admin.listener": "http://127.0.0.1:0", "pybroker.admin.token": "secret"}
    with Broker.in_thread(settings) as broker:
        page = context.new_page()
        page.goto(f"{broker.admin_url}/#/topics")
        for token in ("wrong", "secret"):
            page.get_by_label("Password, or the token").fill(token)
            page.get_by_role("button", name="Go on").click()
            if token == "wrong":
                expect(page.get_by_label("Password, or the token")).to_have_value("")
        page.get_by_text("There is no topic yet.").wait_for()
        page.reload()
        page.get_by_text("There is no topic yet.").wait_for()
        assert "secret" not in page.url
