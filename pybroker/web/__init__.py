"""The page of a broker: files that a browser loads from `pybroker.admin.listener`, and that use its JSON API (docs/page.md).

`static` has all of them, as they are: there is no build step, and nothing is loaded from elsewhere.

index.html, style.css      the frame of the page
main.js                    which view the address names
api.js, parts.js, text.js  requests, parts of a page, how values are shown
NAME.js                    the view NAME
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

STATIC: Final = Path(__file__).with_name("static")
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class Asset(NamedTuple):
    """A file of the page."""

    data: bytes
    content_type: str


@cache
def _assets() -> dict[str, Asset]:
    files = {f"/{file.name}": Asset(file.read_bytes(), TYPES[file.suffix]) for file in STATIC.iterdir() if file.suffix in TYPES}
    return {**files, "/": files["/index.html"]}


def asset_of(path: str) -> Asset | None:
    """Return the file that a path names, `/` for the page itself; None if there is none."""
    return _assets().get(path)
