"""The page is for everyone: on a phone, by keyboard, with a screen reader, in the dark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaConsumer
from playwright.sync_api import expect

from integration.page.conftest import WIDE, Shown

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from pybroker.testing import ThreadBroker

PHONE = {"width": 360, "height": 740}
VIEWS = (
    (), ("topics",), ("topics", "orders"), ("topics", "orders", "partitions"), ("topics", "orders", "batches"),
    ("topics", "orders", "settings"), ("groups",), ("groups", "billing"),
    ("transactions",), ("clients",), ("requests",), ("faults",), ("clock",),
)  # fmt: skip


@pytest.fixture
def filled(broker: ThreadBroker) -> ThreadBroker:
    broker.create_topic("orders", 3)
    broker.produce("orders", '{"order": 1}', key="user-1", headers={"trace": "t" * 60})
    consumer = KafkaConsumer("orders", bootstrap_servers=broker.bootstrap, group_id="billing", auto_offset_reset="earliest")
    consumer.poll(timeout_ms=20_000)
    consumer.commit()
    consumer.close()
    return broker


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", WIDE), ("light", PHONE)], ids=["light", "dark", "phone"])
def test_each_view_is_accessible_and_fits(browser: Browser, filled: ThreadBroker, tmp_path: Path, scheme: Any, size: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    context = browser.new_context(viewport=size, color_scheme=scheme)
    assert filled.admin_url is not None
    shown = Shown(context.new_page(), filled.admin_url, tmp_path)
    found: dict[Any, list[str]] = {}
    for view in VIEWS:
        shown.open(*view)
        shown.page.locator("main table tbody tr, main .card, main caption").first.wait_for()
        shown.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        violations = axe.run(shown.page).response["violations"]
        found |= {(view, one["id"]): [node["html"] for node in one["nodes"]] for one in violations}
        overflow = shown.page.evaluate("document.scrollingElement.scrollWidth - innerWidth")
        assert overflow <= 0, f"{view} is {overflow} pixels wider than the window"
        if size == PHONE:
            tables = shown.page.locator(".scroll").evaluate_all("(all) => all.map((one) => one.scrollWidth - one.clientWidth)")
            assert max(tables, default=0) <= 0, f"{view} has a column that is not seen"
    assert found == {}
    assert shown.faults == []
    context.close()


def test_the_keyboard_reaches_everything(filled: ThreadBroker, shown: Shown) -> None:
    shown.open()
    shown.page.keyboard.press("Tab")
    assert shown.page.evaluate("document.activeElement.textContent") == "Skip to the content"
    for _ in range(3):
        shown.page.keyboard.press("Tab")
    shown.page.keyboard.press("Enter")
    shown.page.wait_for_selector("h1:has-text('Topics')")
    assert shown.page.evaluate("document.activeElement.id") == "main"
    shown.page.keyboard.press("Tab")
    shown.page.keyboard.press("Enter")
    shown.page.get_by_label("Name", exact=True).wait_for()
    shown.page.keyboard.press("Tab")
    shown.page.keyboard.type("by-keyboard")
    shown.page.keyboard.press("Enter")
    shown.notice("The topic by-keyboard is there")
    assert "by-keyboard" in filled.topics()


def test_what_a_person_looks_at_stays_while_the_view_is_brought_up_to_date(filled: ThreadBroker, shown: Shown) -> None:
    shown.open("topics")
    shown.row("orders").get_by_role("link", name="orders").focus()
    filled.create_topic("new")
    shown.row("new").wait_for()
    expect(shown.row("new").or_(shown.row("orders")).get_by_role("link").first).to_be_focused()


def test_a_broker_that_is_gone_is_named_and_found_again(filled: ThreadBroker, shown: Shown) -> None:
    shown.open("topics")
    shown.row("orders").wait_for()
    shown.page.context.set_offline(True)
    shown.page.locator("#state", has_text="The broker does not respond").wait_for()
    shown.page.context.set_offline(False)
    expect(shown.page.locator("#state")).to_have_text("")
