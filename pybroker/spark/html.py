"""HTML pages of jobs: each is one file that needs no other files, for a browser without a network.

A `str` is text and is escaped. Markup has the type Html, which only the functions here make.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, final

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0; }
th, td { border-bottom: 1px solid #8885; padding: .25rem .8rem .25rem 0; text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; }
figure { margin: 1rem 0; } img { background: #fff; max-width: 100%; } figcaption, .note { color: #888; }
.bad { color: #d33; font-weight: 600; } .good { color: #293; font-weight: 600; }
.scroll { overflow-x: auto; }
""".strip()
_POLICY: Final = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_WORDS: Final = ("good", "bad", "note")


@final
class Html(str):
    """Markup, which goes into a page as it is."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the parts that follow it: Html as it is, any other text as a paragraph."""

    title: str
    parts: Sequence[Html | str]


def page(title: str, sections: Iterable[Section], *, introduction: Sequence[Html | str] = ()) -> str:
    """Return a whole document."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">',
        f"<title>{text(title)}</title>",
        f"<style>\n{_STYLE}\n</style></head>",
        "<body>",
        f"<h1>{text(title)}</h1>",
        *map(_part, introduction),
    ]
    for section in sections:
        parts += ["<section>", f"<h2>{text(section.title)}</h2>", *map(_part, section.parts), "</section>"]
    return "\n".join([*parts, "</body></html>", ""])


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """Return a table. Numbers are aligned to the right, with commas between thousands; Html is taken as it is."""
    body = [[_cell(value) for value in row] for row in rows]
    numeric = {at for row in body for at, (is_number, _) in enumerate(row) if is_number}
    heads = "".join(f"<th{_NUMBER if at in numeric else ''}>{text(name)}</th>" for at, name in enumerate(head))
    lines = ["<tr>" + "".join(f"<td{_NUMBER if number else ''}>{cell}</td>" for number, cell in row) + "</tr>" for row in body]
    return Html(f'<div class="scroll"><table>\n<tr>{heads}</tr>\n' + "\n".join(lines) + "\n</table></div>")


def embed(png: bytes, caption: str = "") -> Html:
    """Return a picture that is part of the page. Its caption is also its text for screen readers."""
    data = base64.b64encode(png).decode("ascii")
    below = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    return Html(f'<figure><img alt="{text(caption)}" src="data:image/png;base64,{data}">{below}</figure>')


def marked(word: str, value: object) -> Html:
    """Return coloured text: `word` is good, bad or note."""
    assert word in _WORDS
    _, shown = _cell(value)
    return Html(f'<span class="{word}">{shown}</span>')


def text(value: str) -> Html:
    """Return markup that shows this text."""
    return Html(escape(value))


_NUMBER: Final = ' class="number"'


def _part(part: Html | str) -> str:
    return part if isinstance(part, Html) else f"<p>{text(part)}</p>"


def _cell(value: object) -> tuple[bool, str]:
    """Return whether the value is a number, and its markup."""
    match value:
        case Html():
            return False, value
        case None:
            return False, ""
        case bool():
            return False, "yes" if value else "no"
        case int():
            return True, f"{value:,}"
        case float():
            return True, f"{value:,.6g}"
        case _:
            return False, text(str(value))
