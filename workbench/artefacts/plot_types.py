"""Types of matplotlib, for annotations alone: nothing of it is loaded, and it need not be there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
