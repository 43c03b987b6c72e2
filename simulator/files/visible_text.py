"""Makes texts from files safe to print: visible signs replace characters that would move a terminal's cursor, colour
it or reverse the order of letters."""

from __future__ import annotations

import json
import re
from typing import Any, Final, cast

_SIGNS: Final = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n\f\r"},  # control pictures
    0x7F: 0x2421,
    **dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD),
}
_ACTING: Final = re.compile(f"[{re.escape(''.join(map(chr, _SIGNS)))}]")
_MAY_ACT: Final = re.compile(f"{_ACTING.pattern}|\\\\u(?:00|20)")
"""Matches also the escapes, such as \\u001b, by which a JSON text may write these characters."""


def of_json(text: str | bytes) -> Any:
    """The data of a JSON text, made visible; raises `ValueError` or `RecursionError` if the text is no JSON."""
    told = text.decode() if isinstance(text, bytes) else text
    data = json.loads(told)
    return visible(data) if _MAY_ACT.search(told) else data


def visible(data: Any) -> Any:
    """The same data, with signs for the characters in its texts that act on a terminal."""
    if isinstance(data, str):
        return data.translate(_SIGNS) if _ACTING.search(data) else data
    if isinstance(data, dict):
        return {visible(key): visible(each) for key, each in cast("dict[str, Any]", data).items()}
    if isinstance(data, list):
        return [visible(each) for each in cast("list[Any]", data)]
    return data
