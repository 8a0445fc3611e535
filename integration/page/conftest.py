"""The browser of the tests, a broker for each, and its page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pybroker.testing import Broker, ThreadBroker
from testing.browser.start import running_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

LISTENER = {"pybroker.admin.listener": "http://127.0.0.1:0"}
PICTURES = "PYBROKER_PICTURES"
"""The folder for the pictures of docs/page.md; by default they are among the test's files."""
WIDE = {"width": 1280, "height": 800}
PATIENCE_MS = 20_000


class Shown:
    """The page of a broker in a browser, and what it must never do."""

    def __init__(self, page: Page, url: str, folder: Path) -> None:
        self.page, self.url, self._folder = page, url, folder
        self.faults: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", lambda request: self._check(request.url))

    def open(self, *parts: str) -> Shown:
        """Go to a view, and wait for its title."""
        self.page.goto(f"{self.url}/#/{'/'.join(parts)}")
        self.page.wait_for_selector("main h1")
        return self

    def row(self, text: str) -> Any:
        """Return the row of a table that has a text."""
        return self.page.locator("tbody tr", has_text=text).first

    def setting(self, name: str) -> Any:
        """Return the row of a setting."""
        return self.page.locator("tbody tr", has=self.page.get_by_text(name, exact=True))

    def press(self, name: str) -> None:
        """Click a button."""
        self.page.get_by_role("button", name=name, exact=True).last.click()

    def notice(self, text: str) -> None:
        """Wait for a notice."""
        self.page.locator(".notice", has_text=text).first.wait_for()

    def picture(self, name: str) -> None:
        """Keep a picture."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=self._folder / f"{name}.png")

    def _check(self, url: str) -> None:
        if not url.startswith((f"{self.url}/", "blob:", "data:")):
            self.faults.append(f"a request to {url}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield the browser, which has an event loop in this thread until its end: other tests need one of their own."""
    with running_browser() as running:
        yield running


@pytest.fixture
def broker() -> Iterator[ThreadBroker]:
    with Broker.in_thread(LISTENER, virtual_time=True) as running:
        yield running


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    opened = browser.new_context(viewport=WIDE, accept_downloads=True)  # type: ignore[arg-type]
    yield opened
    opened.close()


@pytest.fixture
def shown(broker: ThreadBroker, context: BrowserContext, tmp_path: Path) -> Iterator[Shown]:
    assert broker.admin_url is not None
    made = Shown(context.new_page(), broker.admin_url, Path(os.environ.get(PICTURES, tmp_path)))
    yield made
    assert made.faults == []
