from __future__ import annotations

import base64
from html.parser import HTMLParser

from pybroker.spark.html import Html, Section, embed, marked, page, table

NASTY = "<script>alert('a & b')</script>\""


class Reader(HTMLParser):
    """A parser of what a browser sees: tags with their attributes, and the text between them."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_text_is_escaped_everywhere_and_tags_are_closed() -> None:
    parts = [NASTY, table([NASTY], [[NASTY]]), embed(b"png", NASTY), marked("bad", NASTY)]
    seen = Reader(page(NASTY, [Section(NASTY, parts)], introduction=[NASTY]))
    assert seen.open == []
    assert "script" not in [tag for tag, _ in seen.tags]
    assert seen.text.count(NASTY) == 9
    assert [attributes["alt"] for tag, attributes in seen.tags if tag == "img"] == [NASTY]


def test_nothing_is_fetched_from_elsewhere() -> None:
    seen = Reader(page("title", [Section("one", [embed(b"\x89PNG")])]))
    assert not [tag for tag, _ in seen.tags if tag in {"link", "script", "iframe"}]
    sources = [attributes["src"] for _, attributes in seen.tags if "src" in attributes]
    assert sources == ["data:image/png;base64," + base64.b64encode(b"\x89PNG").decode()]
    policies = [attributes["content"] for _, attributes in seen.tags if attributes.get("http-equiv")]
    assert policies == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"]


def test_cells_of_a_table() -> None:
    made = table(["name", "count"], [["a", 1234567], ["b", 0.25], ["c", None], ["d", True], ["e", Html("<b>5</b>")]])
    assert '<th>name</th><th class="number">count</th>' in made
    assert '<td>a</td><td class="number">1,234,567</td>' in made
    for cell in ('<td class="number">0.25</td>', "<td></td>", "<td>yes</td>", "<td><b>5</b></td>"):
        assert cell in made
