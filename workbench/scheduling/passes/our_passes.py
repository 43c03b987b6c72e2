"""The workbench's own passes: a row each."""

from __future__ import annotations

from typing import Final

from workbench.scheduling.passes.attach_script import AttachSchedule, AttachScript, DetachSchedule
from workbench.scheduling.passes.borders import SettleBorders
from workbench.scheduling.passes.copy_left_over import CopyLeftOver
from workbench.scheduling.passes.generalize import Generalize
from workbench.scheduling.passes.join_products import JoinProducts, ProductsApart
from workbench.scheduling.passes.join_results import JoinResults
from workbench.scheduling.passes.keep_sums import KeepSums
from workbench.scheduling.passes.kernel_pass import KernelPass
from workbench.scheduling.passes.product_operands import HoldOperands, ReleaseOperands
from workbench.scheduling.passes.promote import Promote
from workbench.scheduling.passes.recompute import Recompute
from workbench.scheduling.passes.results_in_place import ForgetUnread, PlacesInShares, ResultsInPlace
from workbench.scheduling.passes.split_gathers import SplitGathers
from workbench.scheduling.passes.tag import Tag
from workbench.scheduling.passes.window_points import WalkWindows

_PASSES: Final[tuple[type[KernelPass], ...]] = (
    CopyLeftOver,
    Generalize,
    JoinProducts,
    ProductsApart,
    JoinResults,
    ResultsInPlace,
    PlacesInShares,
    ForgetUnread,
    KeepSums,
    HoldOperands,
    ReleaseOperands,
    SplitGathers,
    Tag,
    Recompute,
    AttachSchedule,
    AttachScript,
    DetachSchedule,
    SettleBorders,
    WalkWindows,
    Promote,
)

OUR_PASSES: Final[dict[str, type[KernelPass]]] = {each.name: each for each in _PASSES}
"""By the name in a pipeline."""
