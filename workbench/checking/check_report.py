"""The answer of `j.check()`: a record, and its text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.ground.basics import data_frames
from workbench.ground.basics.table import Table

if TYPE_CHECKING:
    import pandas as pd

    from workbench.checking.tensor_comparison import Bad, OutputCheck


@dataclass(frozen=True, slots=True)
class Check:
    """The answer of `j.check()`, which is true in an `if` when all results agree.

    `text()` has a line for each result, `outputs` a row: our error, PyTorch's own, and the allowed error; each element
    has a bound of its own. docs/checking.md describes the comparisons and the columns.
    """

    stage: str
    results: tuple[OutputCheck, ...]
    hint: str = ""
    """A possible cause of a failure; empty if none is known."""

    @property
    def ok(self) -> bool:
        return all(result.ok for result in self.results)

    def __bool__(self) -> bool:
        return self.ok

    @property
    def max_abs(self) -> float:
        """Largest absolute difference over all outputs."""
        return max((result.max_abs for result in self.results), default=0.0)

    @property
    def max_rel(self) -> float:
        """Largest relative difference over all outputs."""
        return max((result.max_rel for result in self.results), default=0.0)

    @property
    def mismatches(self) -> int:
        """Elements beyond the tolerance, over all outputs; in an output of another shape all elements count."""
        return sum(result.mismatches for result in self.results)

    @property
    def first_bad(self) -> Bad | None:
        return next((result.first_bad for result in self.results if result.first_bad), None)

    @property
    def outputs(self) -> pd.DataFrame:
        """A table with a row for each output and for each mutated input."""
        columns = (
            *("output", "type", "ok", "elements", "mismatches", "max_abs", "max_rel"),
            *("pytorch", "bound", "used", "rule", "reference", "rtol", "atol", "problem"),
        )
        names = ("name", *columns[1:])
        rows = tuple(tuple(getattr(result, name) for name in names) for result in self.results)
        return data_frames.frame(Table(columns, rows))

    def __repr__(self) -> str:
        hint = f"; {self.hint}" if self.hint else ""
        return f"Check({'ok' if self.ok else 'FAILED'}, stage={self.stage!r}, {self._summary()}{hint})"

    def _summary(self) -> str:
        text = f"max_abs={self.max_abs:.2g}, max_rel={self.max_rel:.2g}"
        return text if self.ok else f"{self.mismatches} mismatches, {text}"

    def text(self) -> str:
        """Returns the answer with a line for each output: our error, PyTorch's own, and the allowed error."""
        lines = [f"{'ok' if self.ok else 'FAILED'} at stage {self.stage}: {self._summary()}"]
        lines += [f"  {_line(result)}" for result in self.results]
        return "\n".join([*lines, *([f"  {self.hint}"] if self.hint else [])])


def _line(result: OutputCheck) -> str:
    shown = f"{result.name} ({result.type}): "
    if result.problem:
        return shown + result.problem
    wrong = f"{result.mismatches} of {result.elements} elements; first: {result.first_bad}; " if not result.ok else ""
    if result.rule == "exact":
        return f"{shown}{wrong or 'equal to '}{'compared with ' if wrong else ''}PyTorch's"
    return (
        f"{shown}{wrong}error {result.max_abs:.2g}, PyTorch's {result.pytorch:.2g}, bound there {result.bound:.2g} "
        f"({result.rule}), {_used(result.used)}; reference in {result.reference}"
    )


def _used(part: float) -> str:
    """Says the largest part of its own bound that any element uses. The element with the largest error may use less."""
    if part <= 1:
        return f"no element uses more than {part:.0%} of its own"
    return f"exceeded up to {part:.3g} times" if math.isfinite(part) else "exceeded"
