"""ES modules as one text: anywidget takes one text, while a browser that is served the files takes them as they are.

A file is one line of imports after another (`import { a, b } from "./other.js";`), then its code, with `export` before
the names that other files may use. Imports are followed, each file comes once and after the files that it imports, and
`import` and `export` are removed. All names of the top level then share one scope, so two files that define the same
name are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

JS: Final = Path(__file__).parent / "js"

_IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"\./([\w-]+\.js)";[ \t]*\n', re.MULTILINE)
_ANY_IMPORT = re.compile(r"^import\b.*", re.MULTILINE)
_EXPORT = re.compile(r"^export\s+(?=async\b|function\b|class\b|const\b|let\b)", re.MULTILINE)
_ANY_EXPORT = re.compile(r"^export\b(?! default\b).*", re.MULTILINE)
_DEFAULT = re.compile(r"^export default\b", re.MULTILINE)
_DEFINED = re.compile(
    r"^(?P<exported>export\s+)?(?:(?:async\s+)?function\s*\*?|class|const|let|var)\s+(?P<name>[\w$]+)", re.MULTILINE
)
_UNNAMED = re.compile(r"^(?:export\s+)?(?:const|let|var)\s*[\[{].*", re.MULTILINE)


class BrokenModule(ValueError):
    """A file that cannot be put together with the others; the message says where and why."""


@cache
def joined_modules(entry: str, folder: Path = JS) -> str:
    """The text of `entry` and all that it imports. Only `entry` has a default export."""
    order = list[str]()
    _follow(entry, folder, order, ())
    owners, parts = dict[str, str](), list[str]()
    for name in order:
        text = (folder / name).read_text(encoding="utf-8")
        _check(name, text, last=name == entry)
        for defined in _names(text):
            if defined in owners:
                raise BrokenModule(f"{name} and {owners[defined]} both define {defined}: rename one of them")
            owners[defined] = name
        parts.append(f"// {name}\n{_EXPORT.sub('', _IMPORT.sub('', text)).strip()}\n")
    return "\n".join(parts)


@cache
def styles(names: Sequence[str], folder: Path = JS) -> str:
    """Style sheets one after another."""
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def _follow(name: str, folder: Path, order: list[str], way: tuple[str, ...]) -> None:
    """Puts a file into the order behind all that it imports."""
    if name in way:
        raise BrokenModule(f"imports go round in a circle: {' -> '.join((*way, name))}")
    if name in order:
        return
    if not (folder / name).is_file():
        raise BrokenModule(f"{way[-1] if way else 'the widget'} imports {name}, which is not in {folder.name}/")
    text = (folder / name).read_text(encoding="utf-8")
    for wanted, other in _IMPORT.findall(text):
        _follow(other, folder, order, (*way, name))
        exported = _exported((folder / other).read_text(encoding="utf-8"))
        for each in filter(None, (part.strip() for part in wanted.split(","))):
            if each not in exported:
                raise BrokenModule(f"{name} imports {each} from {other}, which exports {', '.join(exported)}")
    order.append(name)


def _names(text: str) -> list[str]:
    return [found["name"] for found in _DEFINED.finditer(text)]


def _exported(text: str) -> list[str]:
    return [found["name"] for found in _DEFINED.finditer(text) if found["exported"]]


def _check(name: str, text: str, *, last: bool) -> None:
    """Refuses a file whose text cannot be joined with the others."""
    wrong = [
        *_ANY_IMPORT.findall(_IMPORT.sub("", text)),
        *_ANY_EXPORT.findall(_EXPORT.sub("", text)),
        *_UNNAMED.findall(text),
    ]
    if wrong:
        raise BrokenModule(
            f"{name}: {wrong[0].strip()!r}. At the top level stand imports as "
            'import { a, b } from "./other.js";, exports before a function, class, const or let, one name each'
        )
    if bool(_DEFAULT.search(text)) != last:
        raise BrokenModule(f"{name}: {'the widget has no' if last else 'only the widget itself has a'} default export")
