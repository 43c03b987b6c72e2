"""A template's rendered text, with the line of the template that each rendered line came from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workbench.ir.kernel_identity import without_origins

MARK: Final = " // template line "
"""The mark at the end of each line during rendering; the line's number in the template follows."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a template's text: a file, with `before` lines before the text's first line."""

    name: str
    file: str
    before: int | None
    """None for an assembled text, which is in no file."""

    def at(self, line: int | None) -> str:
        if line is None:
            return self.file
        return (
            f"{self.file}:{self.before + line}" if self.before is not None else f"{self.file}, line {line} of its text"
        )


@dataclass(frozen=True, slots=True)
class Rendering:
    """A rendered kernel; `lines[i]` is the template line that line i + 1 came from, 0 if unknown."""

    text: str
    located: str
    """The text with the origins of the hooks' ops."""
    lines: tuple[int, ...]
    place: Place

    def at(self, line: int | None) -> str:
        """The place in the template that a line of the rendered text came from."""
        known = line is not None and 0 < line <= len(self.lines) and self.lines[line - 1]
        return self.place.at(self.lines[line - 1]) if known and line is not None else self.place.at(None)


def unmarked(text: str, place: Place) -> Rendering:
    clean: list[str] = []
    lines: list[int] = []
    for line in text.split("\n"):
        body, _, number = line.partition(MARK)
        if body.strip():
            clean.append(body.rstrip())
            lines.append(int(number.split(MARK)[0] or 0) if number else 0)
    located = "\n".join(clean) + "\n"
    return Rendering(without_origins(located), located, tuple(lines), place)


def jinja_line(error: BaseException) -> int | None:
    """The line of the template in which rendering failed: the innermost frame of the template's own code."""
    line: int | None = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def text_start(file: str, text: str) -> int | None:
    """The number of lines of a Python file before a text that it contains literally."""
    first = next((line for line in text.splitlines() if line.strip()), None)
    if first is None:
        return None
    try:
        content = Path(file).read_text("utf-8")
    except OSError:
        return None
    found = content.find(text)
    return content.count("\n", 0, found) if found >= 0 else None
