"""The answer of `j.check()`: a record, and how it reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench import views
from workbench.views.table import Table

if TYPE_CHECKING:
    import pandas as pd

    from workbench.ops.compare import Bad, OutputCheck


@dataclass(frozen=True, slots=True)
class Check:
    """The answer of `j.check()`. It is true in an `if` when everything agrees."""

    stage: str
    results: tuple[OutputCheck, ...]
    hint: str = ""
    """What may be behind a failure, where something is known."""

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
        """Elements beyond the tolerance, over all outputs; an output of another shape counts with all it has."""
        return sum(result.mismatches for result in self.results)

    @property
    def first_bad(self) -> Bad | None:
        return next((result.first_bad for result in self.results if result.first_bad), None)

    @property
    def outputs(self) -> pd.DataFrame:
        """One row an output, and one a mutated input."""
        columns = ("output", "type", "ok", "elements", "mismatches", "max_abs", "max_rel", "rtol", "atol", "problem")
        rows = tuple(
            (r.name, r.type, r.ok, r.elements, r.mismatches, r.max_abs, r.max_rel, r.rtol, r.atol, r.problem)
            for r in self.results
        )
        return views.frame.frame(Table(columns, rows))

    def __repr__(self) -> str:
        hint = f"; {self.hint}" if self.hint else ""
        return f"Check({'ok' if self.ok else 'FAILED'}, stage={self.stage!r}, {self._summary()}{hint})"

    def _summary(self) -> str:
        text = f"max_abs={self.max_abs:.2g}, max_rel={self.max_rel:.2g}"
        return text if self.ok else f"{self.mismatches} mismatches, {text}"

    def text(self) -> str:
        """The answer with a line for each output that fails."""
        lines = [f"{'ok' if self.ok else 'FAILED'} at stage {self.stage}: {self._summary()}"]
        for result in self.results:
            if not result.ok:
                what = result.problem or f"{result.mismatches} of {result.elements} elements"
                first = f"; first: {result.first_bad}" if result.first_bad else ""
                lines.append(f"  {result.name} ({result.type}): {what}{first}")
        return "\n".join([*lines, *([f"  {self.hint}"] if self.hint else [])])
