"""The table of the workbench's own passes."""

from __future__ import annotations

from typing import Final

from workbench.scheduling.passes.attach_script import AttachSchedule, AttachScript, detach_schedule
from workbench.scheduling.passes.borders import settle_borders
from workbench.scheduling.passes.copy_left_over import copy_left_over
from workbench.scheduling.passes.generalize import generalize
from workbench.scheduling.passes.join_products import join_products, take_products_apart
from workbench.scheduling.passes.join_results import join_results
from workbench.scheduling.passes.keep_sums import keep_sums
from workbench.scheduling.passes.kernel_pass import KernelPass, ModulePass
from workbench.scheduling.passes.product_operands import hold_operands, release_operands
from workbench.scheduling.passes.promote import Promote
from workbench.scheduling.passes.recompute import recompute
from workbench.scheduling.passes.results_in_place import forget_unread, put_places_in_shares, put_results_in_place
from workbench.scheduling.passes.split_gathers import split_gathers
from workbench.scheduling.passes.tag import name_ops
from workbench.scheduling.passes.window_points import walk_windows

OUR_PASSES: Final[dict[str, type[KernelPass] | ModulePass]] = {each.name: each for each in (
    copy_left_over, generalize, join_products, take_products_apart, join_results, put_results_in_place,
    put_places_in_shares, forget_unread, keep_sums, hold_operands, release_operands, split_gathers, name_ops, recompute,
    AttachSchedule, AttachScript, detach_schedule, settle_borders, walk_windows, Promote,
)}  # fmt: skip
"""The workbench's passes, by their names in pipelines."""
