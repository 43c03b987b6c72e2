"""The doctor's findings: one sentence each, with the way to mend it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """Something works, but slowly or only in part."""
    PROBLEM = "problem"
    """Something does not work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one examination."""

    topic: str
    level: Level
    what: str
    todo: str = ""


def ok(topic: str, what: str) -> Finding:
    return Finding(topic, Level.OK, what)


def warning(topic: str, what: str, todo: str) -> Finding:
    return Finding(topic, Level.WARNING, what, todo)


def problem(topic: str, what: str, todo: str) -> Finding:
    return Finding(topic, Level.PROBLEM, what, todo)


def healthy(findings: Sequence[Finding]) -> bool:
    """True if everything works, perhaps with warnings."""
    return all(finding.level != Level.PROBLEM for finding in findings)


def as_json(findings: Sequence[Finding]) -> dict[str, object]:
    return {"ok": healthy(findings), "findings": [asdict(finding) for finding in findings]}


def as_text(findings: Sequence[Finding], *, width: int = 100) -> str:
    """Returns a line or more for each finding, and a last line with the counts."""
    room = max((len(finding.topic) for finding in findings), default=0)
    lines: list[str] = []
    for finding in findings:
        head = f"{finding.level:<8} {finding.topic:<{room}}  "
        indent = " " * len(head)
        lines += textwrap.wrap(finding.what, width, initial_indent=head, subsequent_indent=indent)
        if finding.todo:
            lines += textwrap.wrap(f"-> {finding.todo}", width, initial_indent=indent, subsequent_indent=f"{indent}   ")
    return "\n".join([*lines, "", _summary(findings)])


def _summary(findings: Sequence[Finding]) -> str:
    counts = {level: sum(finding.level == level for finding in findings) for level in (Level.PROBLEM, Level.WARNING)}
    said = [f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts.items() if count]
    return ", ".join(said) if said else "nothing wrong was found"
