"""The one place where text becomes HTML: a tag is written by `html`, which escapes all values that are put into it.

Every function that makes HTML returns `Markup`, a string that is known to be HTML. Text, such as the name of a class in
somebody's file, is a plain `str`, and `html`, `joined` and `+` escape it. So a mistake shows `&lt;b&gt;` on the page,
and runs no script. pyright holds templates to texts that stand in the code, and `scripts/check_house.py` refuses tags
anywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, LiteralString, TypeAlias

from markupsafe import Markup, escape

Value: TypeAlias = str | int | float
"""A value for a template: `Markup` is inserted as it is, text is escaped, numbers are written by their format."""

NO_HTML: Final = Markup()


def html(template: LiteralString, /, *values: Value, **named: Value) -> Markup:
    """The HTML of a template, `html('<b title="{}">{name}</b>', told, name=name)`; attributes stand in quotes."""
    return Markup(template.format(*map(_inserted, values), **{name: _inserted(value) for name, value in named.items()}))


def joined(parts: Iterable[Markup], between: Markup = NO_HTML) -> Markup:
    """Pieces of HTML one after another."""
    return between.join(parts)


_PLAIN: Final = re.compile(r"[A-Za-z0-9 .,+/=-]*")
MOST_LETTERS: Final = 20_000
"""The most letters of one text that are shown: a name in a file may have millions, and a page has each name many
times."""


def cut(text: str, most: int = MOST_LETTERS) -> str:
    """The text, cut after `most` letters; a note then tells how many more there are."""
    return text if len(text) <= most else f"{text[:most]}… and {len(text) - most:,} more letters"


def escaped(text: str) -> Markup:
    """Text as HTML that shows it letter by letter. Halves of a letter (lone surrogates), which no file can hold, are
    shown as their numbers."""
    text = cut(text)
    return escape(text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8"))


def trusted(text: str) -> Markup:
    """HTML that a library made and has escaped, such as matplotlib's pictures. The house check lists who calls this."""
    return Markup(text)


def plain(data: str) -> Markup:
    """Our own data of any length as HTML, such as a picture's coordinates or base64; refuses letters with a meaning in
    HTML."""
    if not _PLAIN.fullmatch(data):
        raise ValueError("plain(...) takes letters, digits, spaces and . , + - / = alone; html(...) escapes all others")
    return Markup(data)


def inside_script(code: str) -> Markup:
    """Our own JavaScript, changed so that nothing in it ends the script element."""
    return Markup(code.replace("</script", r"<\/script").replace("<!--", r"<\!--"))


def as_html(text: str) -> Markup:
    """Returns HTML unchanged, and text escaped."""
    return text if isinstance(text, Markup) else escaped(text)


def _inserted(value: Value) -> Value:
    return as_html(value) if isinstance(value, str) else value
