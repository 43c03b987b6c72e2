"""ATen Workbench: one PyTorch operator, or a whole model, through a real NPU compiler and a cycle simulator.

    import torch, workbench as wb
    j = wb.trace(torch.softmax, torch.randn(512, 512), 1, machine="tpu-v3")
    j.simulated.cycles, j.check().ok

Importing this package is cheap: every name below is fetched from its module at its first use, so that PyTorch, MLIR,
Numba and pandas load only when they are needed.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from workbench.ground.moved_names import find_moved_names, new_name
from workbench.ground.offers import offer
from workbench.ground.packages import own_name
from workbench.ground.version import VERSION

if TYPE_CHECKING:
    from simulator.machine.machine import Machine as Machine
    from workbench import models as models
    from workbench.backend import last_journeys as last_journeys
    from workbench.capturing.rewriting.graph_pass import graph_pass as graph_pass
    from workbench.capturing.rewriting.pattern import pattern as pattern
    from workbench.checking.check_report import Check as Check
    from workbench.explaining.artefacts import Captured as Captured
    from workbench.explaining.artefacts import Lowered as Lowered
    from workbench.explaining.artefacts import Rendered as Rendered
    from workbench.explaining.artefacts import Scheduled as Scheduled
    from workbench.explaining.artefacts import Simulated as Simulated
    from workbench.explaining.findings import Facts as Facts
    from workbench.explaining.findings import Finding as Finding
    from workbench.explaining.findings import Remedy as Remedy
    from workbench.explaining.findings import finding as finding
    from workbench.explaining.findings.folded_windows import folded_window as folded_window
    from workbench.explaining.findings.int8_weights import int8_linear as int8_linear
    from workbench.explaining.views.selections.origins import BufferAt as BufferAt
    from workbench.explaining.views.selections.origins import InstructionAt as InstructionAt
    from workbench.explaining.views.selections.origins import MlirLine as MlirLine
    from workbench.explaining.views.selections.origins import RenderedLine as RenderedLine
    from workbench.explaining.views.selections.origins import SpanAt as SpanAt
    from workbench.explaining.views.selections.origins import TileAt as TileAt
    from workbench.explaining.views.selections.selection import Selection as Selection
    from workbench.explaining.views.selections.selection_model import SelectionModel as SelectionModel
    from workbench.exploring.comparison import Comparison as Comparison
    from workbench.ground.basics.table import Table as Table
    from workbench.ground.basics.user_views import view as view
    from workbench.ground.errors import WorkbenchError as WorkbenchError
    from workbench.journey import Journey as Journey
    from workbench.operators import ops as ops
    from workbench.scheduling.passes.kernel_pass import KernelPass as KernelPass
    from workbench.scheduling.passes.user_passes import mlir_pass as mlir_pass
    from workbench.verbs import capture as capture
    from workbench.verbs import compare as compare
    from workbench.verbs import lab as lab
    from workbench.verbs import load as load
    from workbench.verbs import lower as lower
    from workbench.verbs import machine as machine
    from workbench.verbs import machines as machines
    from workbench.verbs import render as render
    from workbench.verbs import schedule as schedule
    from workbench.verbs import simulate as simulate
    from workbench.verbs import trace as trace
    from workbench.verbs import tune as tune

__version__ = VERSION

find_moved_names()
offer(drawing="workbench.jupyter", operators=own_name("templates"))

_HOMES = {
    "workbench.journey": ("Journey",),
    "workbench.verbs": (
        "capture",
        "compare",
        "lab",
        "load",
        "lower",
        "machine",
        "machines",
        "render",
        "schedule",
        "simulate",
        "trace",
        "tune",
    ),
    "workbench.explaining.artefacts": ("Captured", "Lowered", "Rendered", "Scheduled", "Simulated"),
    "workbench.backend": ("last_journeys",),
    "workbench.checking.check_report": ("Check",),
    "workbench.exploring.comparison": ("Comparison",),
    "workbench.ground.errors": ("WorkbenchError",),
    "workbench.explaining.findings.folded_windows": ("folded_window",),
    "workbench.explaining.findings.int8_weights": ("int8_linear",),
    "workbench.explaining.findings": ("Facts", "Finding", "Remedy", "finding"),
    "workbench.capturing.rewriting.graph_pass": ("graph_pass",),
    "workbench.capturing.rewriting.pattern": ("pattern",),
    "workbench.scheduling.passes.kernel_pass": ("KernelPass",),
    "workbench.scheduling.passes.user_passes": ("mlir_pass",),
    "workbench.ground.basics.user_views": ("view",),
    "workbench.ground.basics.table": ("Table",),
    "workbench.explaining.views.selections.origins": (
        "BufferAt",
        "InstructionAt",
        "MlirLine",
        "RenderedLine",
        "SpanAt",
        "TileAt",
    ),
    "workbench.explaining.views.selections.selection_model": ("SelectionModel",),
    "workbench.explaining.views.selections.selection": ("Selection",),
    own_name("simulator.machine.machine"): ("Machine",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BufferAt",
    "Captured",
    "Check",
    "Facts",
    "Finding",
    "InstructionAt",
    "Journey",
    "KernelPass",
    "Lowered",
    "Machine",
    "MlirLine",
    "Rendered",
    "RenderedLine",
    "Scheduled",
    "Selection",
    "SelectionModel",
    "Simulated",
    "SpanAt",
    "Table",
    "TileAt",
    "WorkbenchError",
    "capture",
    "compare",
    "finding",
    "folded_window",
    "int8_linear",
    "lab",
    "last_journeys",
    "load",
    "lower",
    "machine",
    "machines",
    "mlir_pass",
    "models",
    "ops",
    "pattern",
    "render",
    "schedule",
    "simulate",
    "trace",
    "tune",
    "view",
]


if "IPython" in sys.modules:
    importlib.import_module("workbench.jupyter.ipython_session").begin()


def load_ipython_extension(ipython: object) -> None:
    """`%load_ext workbench`: the magics `%%mlir`, `%%schedule` and `%%kernel`, and their completion."""
    importlib.import_module("workbench.jupyter.magics").load(ipython)


def unload_ipython_extension(ipython: object) -> None:
    """`%unload_ext workbench`."""
    importlib.import_module("workbench.jupyter.magics").unload(ipython)


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is not None:
        return getattr(importlib.import_module(home), name)
    home = "workbench.models" if name == "models" else new_name(f"workbench.{name}")
    if home is not None:
        return importlib.import_module(home)
    raise AttributeError(f"module 'workbench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
