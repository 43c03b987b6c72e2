"""MLIR that a user wrote, looked at before the parser: it recurses, and what is nested too deeply ends the process."""

from __future__ import annotations

import re
from typing import Final

from workbench.ground.errors import MlirSyntaxError, Problem

MOST_NESTING: Final = 200
"""Brackets in each other. The parser can bear thousands; kernels have a dozen."""

_TOKEN: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"?|//[^\n]*|->|[<>]=|[\[\](){}<>]')
"""Brackets, and before them what holds some that are none: strings, comments, arrows and comparisons."""

_HALF: Final = re.compile("[\ud800-\udfff]")


def check_text(text: str, name: str) -> None:
    """Raises `MlirSyntaxError` for a text that the parser must not be given."""
    if half := half_character(text):
        raise MlirSyntaxError(name, writable(text), (half,))
    if "\0" in text:  # the parser takes it for the end of the text
        told = "a null character, '\\0', stands here, which no text has; remove it"
        line = text.count("\n", 0, text.index("\0")) + 1
        raise MlirSyntaxError(name, text.replace("\0", "\\0"), (Problem(told, line),))
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in ("{", "(", "[", "<"):
            depth += 1
        elif token[0] in ("}", ")", "]", ">"):
            depth = max(depth - 1, 0)
        if depth > MOST_NESTING:
            told = f"more than {MOST_NESTING} brackets are open here; expected at most this many, nested"
            raise MlirSyntaxError(name, text, (Problem(told, text.count("\n", 0, token.start()) + 1),))


def half_character(text: str) -> Problem | None:
    """Returns the place of a surrogate without its other half: such a text cannot be handed to the parser, nor
    written."""
    if not (found := _HALF.search(text)):
        return None
    told = f"{found[0]!r} is half of a character and no Unicode text; remove it, or write the whole character"
    return Problem(told, text.count("\n", 0, found.start()) + 1)


def writable(text: str) -> str:
    """The text with halves of characters written out, so that it can be shown."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
