"""The answer of `wb.compare(...)`: journeys side by side, and how they read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench import views
from workbench.artefacts import drawing
from workbench.asking import knows_its_options
from workbench.views.shown import Shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from workbench.views.compare import Compared


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Simulated journeys side by side; the first one is what the ratios refer to."""

    record: Compared

    @property
    def table(self) -> pd.DataFrame:
        """One row a figure, a kernel or a cause of idle time; one column a journey."""
        return views.frame.frame(self.record.figures())

    @property
    def ratios(self) -> pd.DataFrame:
        """One row a journey: cycles and time, and both as multiples of the first one's."""
        return views.frame.frame(self.record.ratios())

    @knows_its_options
    def text(self, *, width: int = 72) -> str:
        return self.record.text(width=width)

    @knows_its_options
    def html(self) -> str:
        return self.record.html()

    @knows_its_options
    def plot(self, *, style: str = "light", width: float = 11.0) -> Figure:
        """The timelines below each other, on one scale of time."""
        return drawing().timelines(self.record.names, self.record.gantts(), style=style, width=width)

    def __repr__(self) -> str:
        told = (
            f"{name} {trace.makespan:,} cycles"
            for name, trace in zip(self.record.names, self.record.traces, strict=True)
        )
        return f"Comparison({', '.join(told)})"
