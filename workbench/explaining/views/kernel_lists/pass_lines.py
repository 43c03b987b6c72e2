"""The texts between a kernel's passes, and for their lines the same lines of the rendered and the scheduled kernel.

Passes keep no locations. But a line that a pass leaves the same, up to names, is still the same line: so each line is
followed from the rendered kernel downwards and from the scheduled kernel upwards, as far as it stays the same. And
every linalg op keeps a number (`npu.id`), by which the op and the lines of its body are found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from workbench.explaining.views.kernel_lists.kernel_tables import (
    line_regions,
    rendered_line_origins,
    scheduled_line_origins,
)
from workbench.explaining.views.kernel_lists.pass_tables import Pass, steps_of
from workbench.ground.basics.mlir_diff import Diff, compared, read
from workbench.ground.basics.table import Table
from workbench.ir import KernelModule, ScheduledKernel, Snapshot

_ID = re.compile(r"\bnpu\.id = (\d+)\b")
_NO_OP = ("^", "}", "#")
LINE_COLUMNS = ("line", "text", "nodes", "rendered_line", "scheduled_line")


@dataclass(frozen=True, eq=False)
class PassTrace:
    """A kernel's passes with the texts before, between and after them: text 0 is the rendered kernel, text i the one
    after pass i."""

    kernel: ScheduledKernel
    module: KernelModule | None
    """The rendered kernel, where it is known."""

    @cached_property
    def steps(self) -> tuple[Pass, ...]:
        return steps_of(self.kernel, [self.module] if self.module else [])

    @cached_property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        """The lines of each text, without locations; aliases are in the order that comparisons use."""
        first = self.module.mlir if self.module else ""
        return tuple(tuple(line.text for line in read(text)) for text in (first, *self._mlir))

    @property
    def _mlir(self) -> list[str]:
        return [snapshot.mlir for snapshot in self.kernel.passes]

    def between(self, before: int, after: int) -> Diff:
        """The changes from text `before` to text `after`."""
        first, last = sorted((before, after))
        if last == first + 1 and (known := self.steps[first].diff) is not None:
            return known if before < after else compared(self._text(before), self._text(after))
        return compared(self._text(before), self._text(after))

    def _text(self, number: int) -> str:
        return self._mlir[number - 1] if number else self.module.mlir if self.module else ""

    @cached_property
    def rendered_lines(self) -> list[dict[int, int]]:
        """For each text: 0-based line -> 1-based line of the rendered kernel, if that line comes from a node."""
        if self.module is None:
            return [{} for _ in self.texts]
        kept = rendered_line_origins(self.module)
        found = [{line - 1: line for line in kept}]
        for step in self.steps:
            found.append(_followed(found[-1], _same(step.diff)))
        return found

    @cached_property
    def scheduled_lines(self) -> list[dict[int, int]]:
        """For each text: 0-based line -> 1-based line of the scheduled kernel, if that line comes from a node."""
        kept = {line - 1: line for line in scheduled_line_origins(self.kernel)}
        if not self.steps:
            return [{} for _ in self.texts]
        last = compared(self._mlir[-1], self.kernel.mlir)
        found = [_followed(kept, {new: old for old, new in _same(last).items()})]
        for step in reversed(self.steps):
            found.insert(0, _followed(found[0], {new: old for old, new in _same(step.diff).items()}))
        numbered = _numbered(self.texts[-1])
        lines = {number: found[-1][place] for number, place in numbered.items() if place in found[-1]}
        return [_by_number(text, lines) | known for text, known in zip(self.texts, found, strict=True)]

    def lines_table(self, number: int) -> Table:
        """One row a line of a text."""
        rendered, scheduled = self.rendered_lines[number], self.scheduled_lines[number]
        before = rendered_line_origins(self.module) if self.module else {}
        after = scheduled_line_origins(self.kernel)
        rows = tuple(
            (
                place + 1,
                text,
                after.get(scheduled.get(place, 0)) or before.get(rendered.get(place, 0), ()),
                rendered.get(place),
                scheduled.get(place),
            )
            for place, text in enumerate(self.texts[number])
        )
        return Table(LINE_COLUMNS, rows)


def traces_of(kernels: Iterable[ScheduledKernel], rendered: Iterable[KernelModule]) -> list[PassTrace]:
    """The passes of each kernel."""
    modules = {module.kernel: module for module in rendered}
    return [PassTrace(kernel, modules.get(kernel.kernel)) for kernel in kernels]


def together(steps: Sequence[Pass], before: int, after: int) -> Pass:
    """All passes from text `before` to text `after` as one."""
    run = [step.record for step in steps[before:after]]
    name = run[0].name if len(run) == 1 else f"{run[0].name} to {run[-1].name}"
    pipeline = "\n".join(made.pipeline for made in run)
    seconds = sum(made.seconds for made in run)
    made = Snapshot(name, pipeline, seconds, run[0].ops_before, run[-1].ops_after, run[-1].mlir)
    return Pass(steps[before].kernel, steps[before].number, len(steps), made, steps[before].before)


def _same(diff: Diff | None) -> dict[int, int]:
    """Lines that stay the same: before -> after, 0-based."""
    if diff is None:
        return {}
    pairs = (zip(change.before, change.after, strict=True) for change in diff.changes if change.same)
    return {old: new for run in pairs for old, new in run}


def _followed(lines: Mapping[int, int], same: Mapping[int, int]) -> dict[int, int]:
    return {same[place]: line for place, line in lines.items() if place in same}


def _numbered(text: Sequence[str]) -> dict[int, int]:
    """Number of an op -> its first line in a text, 0-based; mentions in a transform script do not count."""
    found = dict[int, int]()
    for place, line in enumerate(text):
        number = _ID.search(line)
        if number and "transform." not in line:
            found.setdefault(int(number[1]), place)
    return found


def _by_number(text: Sequence[str], lines: Mapping[int, int]) -> dict[int, int]:
    """Lines of a text that are numbered ops, or in the body of one, with the line of the op in the scheduled kernel."""
    heads = {place: lines[number] for number, place in _numbered(text).items() if number in lines}
    ends = {first - 1: last for first, last in line_regions("\n".join(text))}
    found = dict(heads)
    for place, line in heads.items():
        body = range(place + 1, ends.get(place, place + 1) - 1)
        found |= {inner: line for inner in body if not text[inner].strip().startswith(_NO_OP)}
    return found
