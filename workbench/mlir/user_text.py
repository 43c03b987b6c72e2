"""Checks MLIR text of a user before parsing: the parser is recursive, and text nested too deeply ends the process."""

from __future__ import annotations

import re
from typing import Final

from workbench.ground.errors import MlirSyntaxError, Problem

MOST_NESTING: Final = 200
"""The most nested brackets. The parser can handle thousands; kernels have a dozen."""

_TOKEN: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"?|//[^\n]*|->|[<>]=|[\[\](){}<>]')
"""Tokens: brackets, and, matched first, text that contains letters like brackets: strings, comments, arrows and
comparisons."""

_HALF: Final = re.compile("[\ud800-\udfff]")


def check_text(text: str, name: str) -> None:
    """Raises `MlirSyntaxError` for a text that must not be passed to the parser."""
    if half := half_character(text):
        raise MlirSyntaxError(name, writable(text), (half,))
    if "\0" in text:  # the parser stops there
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
    """The problem of half a character (a lone surrogate), with its line: such a text can neither be parsed nor written;
    None if there is none."""
    if not (found := _HALF.search(text)):
        return None
    told = f"{found[0]!r} is half of a character and no Unicode text; remove it, or write the whole character"
    return Problem(told, text.count("\n", 0, found.start()) + 1)


def writable(text: str) -> str:
    """The text with lone surrogates as escapes, so that it can be shown."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
