"""Finds the line of each entry of a list in a file, and of each key of an entry, for messages.

Parsers of TOML and JSON do not return lines. This module finds them in files that a parser has accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

Lines = Mapping[tuple[int, str], int]
"""(the entry's number, its key) -> the key's line, from 1; with the key "", the line where the entry begins."""

_KEY = re.compile(r"\s*(?:\"([^\"]*)\"|'([^']*)'|([\w-]+))\s*[.=]")
_HEAD = re.compile(r"\s*(\[\[?)([^\]]+)\]")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|$)|[{}\[\]:,]|[^\s{}\[\]:,"]+')


def lines_of_toml(text: str, table: str) -> dict[tuple[int, str], int]:
    """The lines of an array of tables, `[[table]]`; a key of a table inside an entry has the line of that table."""
    found, entry, inside = dict[tuple[int, str], int](), -1, ""
    for number, line in enumerate(text.split("\n"), 1):  # TOML knows no other end of a line
        head = _HEAD.match(line)
        if head is not None:
            name = ".".join(part.strip() for part in head[2].replace('"', "").replace("'", "").split("."))
            if head[1] == "[[" and name == table:
                entry, inside = entry + 1, ""
                found[entry, ""] = number
            else:
                inside = name.removeprefix(f"{table}.") if name.startswith(f"{table}.") else "?"
                found.setdefault((entry, inside), number)
        elif not inside and (key := _KEY.match(line)):
            found.setdefault((entry, key[1] or key[2] or key[3]), number)
    return found


def lines_of_json(text: str, table: str) -> dict[tuple[int, str], int]:
    """The lines of a list of objects that the outermost object has under the key `table`."""
    found, path, entry = dict[tuple[int, str], int](), list[str](), -1
    last, listed = "", False
    for what, number in _tokens(text):
        if what in "{[":
            path.append(what)
            if listed and path == ["{", "[", "{"]:
                entry += 1
                found[entry, ""] = number
        elif what in "}]":
            path.pop()
            listed = listed and len(path) > 1
        elif what == ":" and path == ["{"]:
            listed = last == table
        elif what == ":" and listed and path == ["{", "[", "{"]:
            found.setdefault((entry, last), number)
        elif what.startswith('"'):
            last = json.loads(what)
    return found


def mistake_in_json(text: str) -> str:
    """The first mistake that the parser accepts: a key twice in one object (the parser keeps only the last), or half a
    character (a lone surrogate, which cannot be written to a file); '' if there is none."""
    objects, last, half = list[set[str]](), "", ""
    for what, number in _tokens(text):
        if what in "{[":
            objects.append(set())
        elif what in "}]":
            objects.pop()
        elif what == ":":
            if last in objects[-1]:
                return f"line {number}: the key {last!r} stands there again; leave one of them out"
            objects[-1].add(last)
        elif what.startswith('"'):
            last = json.loads(what)
            if not half and any("\ud800" <= each <= "\udfff" for each in last):
                half = f"line {number}: {what:.60} has half a character in it, which is no text"
    return half


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """Each token of JSON with its line."""
    number, before = 1, 0
    for token in _TOKEN.finditer(text):
        number += text.count("\n", before, token.start())
        before = token.start()
        yield token[0], number
