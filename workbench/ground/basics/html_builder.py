"""The one place where text becomes HTML: a tag is written by `html`, which escapes all that is put into it.

Whatever makes HTML returns `Markup`, a string that is known to be HTML. Text, such as the name of a class in somebody's
file, is a plain `str`, and `html`, `joined` and `+` escape it. So to forget is to see `&lt;b&gt;`, not to run a script.
pyright holds templates to texts that stand in the code, and `scripts/check_house.py` refuses tags anywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, LiteralString, TypeAlias

from markupsafe import Markup, escape

Value: TypeAlias = str | int | float
"""A value for a template, which takes `Markup` as it is, escapes text, and writes numbers as their format says."""

NO_HTML: Final = Markup()


def html(template: LiteralString, /, *values: Value, **named: Value) -> Markup:
    """The HTML of a template, `html('<b title="{}">{name}</b>', told, name=name)`; attributes stand in quotes."""
    return Markup(template.format(*map(_inserted, values), **{name: _inserted(value) for name, value in named.items()}))


def joined(parts: Iterable[Markup], between: Markup = NO_HTML) -> Markup:
    """Pieces of HTML one after another."""
    return between.join(parts)


_PLAIN: Final = re.compile(r"[A-Za-z0-9 .,+/=-]*")
MOST_LETTERS: Final = 20_000
"""Letters of one text that are shown: a name in a file may have millions, and a page has each name many times."""


def cut(text: str, most: int = MOST_LETTERS) -> str:
    """The first letters of a text, and how many more there are."""
    return text if len(text) <= most else f"{text[:most]}… and {len(text) - most:,} more letters"


def escaped(text: str) -> Markup:
    """Text as HTML that shows it, letter by letter; halves of a letter, which no file can hold, as their numbers."""
    text = cut(text)
    return escape(text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8"))


def trusted(text: str) -> Markup:
    """HTML that a library made and has escaped, such as matplotlib's pictures. The house check lists who calls this."""
    return Markup(text)


def plain(data: str) -> Markup:
    """Data of ours of any length, with no letter that HTML has a meaning for: coordinates of a picture, or base64."""
    if not _PLAIN.fullmatch(data):
        raise ValueError("plain(...) takes letters, digits, spaces and . , + - / = alone; html(...) escapes all others")
    return Markup(data)


def inside_script(code: str) -> Markup:
    """Our own JavaScript, in which no word ends the element that it stands in."""
    return Markup(code.replace("</script", r"<\/script").replace("<!--", r"<\!--"))


def as_html(text: str) -> Markup:
    """HTML as it is, and text escaped."""
    return text if isinstance(text, Markup) else escaped(text)


def _inserted(value: Value) -> Value:
    return as_html(value) if isinstance(value, str) else value
