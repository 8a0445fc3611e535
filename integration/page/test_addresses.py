"""Addresses that a person types or has kept: each leads to its view, or to a text that names the reason, and a way on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from integration.page.conftest import Shown
from pybroker.testing import Broker, ThreadBroker

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

TOKEN = {"pybroker.admin.listener": "http://127.0.0.1:0", "pybroker.admin.token": "secret"}


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("#/nothing", "#/nothing names no view"),
        ("#/topics/%zz", "#/topics/%zz names no view"),
        ("#/clock/now", "#/clock/now names no view"),
        ("#/topics/orders/records/1", "names no view"),
        ("#/topics/orders/nothing", "There is no view nothing of a topic"),
        ("#/topics/none", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("#/topics/none/batches", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("#/topics/none/settings", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("#/topics/../settings", "INVALID_TOPIC_EXCEPTION"),
        ("#/topics/./records", "INVALID_TOPIC_EXCEPTION"),
        ("#/topics/a%20b", "INVALID_TOPIC_EXCEPTION"),
        ("#/groups/none", "There is no group none"),
    ],
)
def test_an_address_of_nothing_has_the_reason_and_a_way_back(broker: ThreadBroker, shown: Shown, address: str, text: str) -> None:
    broker.create_topic("orders")
    shown.page.goto(f"{shown.url}/{address}")
    shown.page.locator("main .bad-text", has_text=text).wait_for()
    shown.page.locator("main a").first.click()
    shown.page.locator("main table, main .card").first.wait_for()


@pytest.mark.parametrize("address", ["", "#", "#/", "#//"])
def test_an_empty_address_is_the_overview(shown: Shown, address: str) -> None:
    shown.page.goto(f"{shown.url}/{address}")
    shown.page.locator("h1", has_text="Overview").wait_for()


@pytest.mark.parametrize("name", [".", "..", "%2E", "%2E%2E", "%252E", "a/b?ü", "%"])
def test_a_group_may_have_any_name(broker: ThreadBroker, shown: Shown, name: str) -> None:
    broker.produce("orders", "1")
    shown.open("groups")
    shown.page.evaluate(
        "async (name) => { const { call, url } = await import('/api.js');"
        " await call('POST', url('/v1/groups/', name, '/offsets'), { topic: 'orders', to: 'earliest' }); }",
        name,
    )
    assert [*broker.groups()] == [name]
    shown.page.get_by_role("link", name=name, exact=True).click()
    shown.row("orders").wait_for()
    shown.press("Delete the group")
    shown.press("Delete the group")
    shown.notice(f"The group {name} is deleted")
    assert broker.groups() == {}


def test_a_topic_that_comes_later_is_found_again(broker: ThreadBroker, shown: Shown) -> None:
    shown.page.goto(f"{shown.url}/#/topics/later")
    shown.page.locator("main .bad-text").wait_for()
    broker.produce("later", "here")
    shown.press("Try again")
    shown.row("here").wait_for()


def logged_in(page: Page) -> None:
    page.get_by_label("Password, or the token").fill("secret")
    page.get_by_role("button", name="Go on").click()


def test_a_kept_address_asks_for_the_token_and_the_links_of_the_overview_use_it(context: BrowserContext, tmp_path: Path) -> None:
    with Broker.in_thread(TOKEN) as broker:
        broker.produce("orders", "here")
        assert broker.admin_url is not None
        page = context.new_page()
        page.goto(f"{broker.admin_url}/#/topics/orders/records")
        logged_in(page)
        page.locator("tbody tr", has_text="here").wait_for()
        page.goto(f"{broker.admin_url}/#/")
        for link, name, text in (
            ("Metrics", "metrics", "pybroker_native_part"),
            ("JSON API", "openapi.json", '"openapi": "3.1.0"'),
        ):
            with page.expect_download() as download:
                page.get_by_role("link", name=link).click()
            assert download.value.suggested_filename.startswith(name)
            download.value.save_as(tmp_path / name)
            assert text in (tmp_path / name).read_text()


def test_without_a_token_the_links_of_the_overview_are_plain(shown: Shown) -> None:
    shown.open()
    shown.page.get_by_role("link", name="Metrics").click()
    expect(shown.page.locator("body")).to_contain_text("pybroker_native_part")


def test_a_record_that_is_too_long_is_refused_before_it_is_sent(broker: ThreadBroker, shown: Shown, tmp_path: Path) -> None:
    broker.create_topic("orders", settings={"max.message.bytes": 4_000_000})
    broker.produce("orders", b"\xff" * 900_000)
    shown.open("topics", "orders")
    shown.page.locator("summary", has_text="Write a record").click()
    value = shown.page.get_by_label("Value", exact=True)
    value.evaluate("(area) => { area.value = 'x'.repeat(1100000); area.dispatchEvent(new Event('input')); }")
    shown.page.locator("form .bad-text", has_text="longer than 1 MB").wait_for()
    shown.press("Write")
    shown.notice("longer than 1 MB")
    value.fill("short")
    shown.page.locator("form .bad-text", has_text="longer than 1 MB").wait_for(state="detached")
    shown.row("base64").get_by_role("button", name="Open").click()
    shown.press("Send again")
    shown.page.locator("form .bad-text", has_text="longer than 1 MB").wait_for()
    assert len(broker.consume("orders")) == 1
    shown.page.locator("summary", has_text="Export").click()
    path = tmp_path / "long.jsonl"
    path.write_text('{"value": "1"}\n{"value": "' + "x" * 1_100_000 + '"}\n')
    shown.page.get_by_label("File to import").set_input_files(path)
    shown.press("Import")
    shown.notice("Line 2: This is longer than 1 MB")
