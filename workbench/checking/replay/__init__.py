"""A tile program replayed in numpy, in the order of its trace: does that order make the right numbers?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.checking.replay import timeline_order as timeline_order

__getattr__ = submodules(__name__, "timeline_order")
