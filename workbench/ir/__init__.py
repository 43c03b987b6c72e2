"""The nouns of the workbench: plain frozen records, JSON in and out, free of torch, MLIR and Jupyter."""

from typing import TYPE_CHECKING

from workbench.ir import graph_checks as graph_checks  # which tells the codec what a graph is held against
from workbench.ir.codec import RecordFormatError
from workbench.ir.dram_blocks import AxisOrder
from workbench.ir.graph import (
    ASSERTIONS,
    BACKWARD,
    FORWARD,
    PARTS,
    STEP,
    Alias,
    Arg,
    AtenGraph,
    Input,
    Literal,
    Mutation,
    Node,
    Numbers,
    Origin,
    Ref,
    Sequence,
    TensorType,
    Tree,
)
from workbench.ir.host_work import BREAK, MADE_BY_PYTHON, HostStep, HostWork, between_text
from workbench.ir.kernels import (
    HOST,
    Absorbed,
    Bound,
    Folded,
    Fusion,
    Hook,
    Kernel,
    KernelGraph,
    KernelModule,
    Launch,
    Launches,
    LoweredNode,
    Mapping,
    Placement,
    Residence,
    ScheduledKernel,
    ScheduledProgram,
    Snapshot,
    Storage,
    View,
    Written,
)
from workbench.ir.rewrites import Match, Nearest, Rewrite, Rewritten, StandsFor
from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.ir import archive as archive

__all__ = [
    "ASSERTIONS",
    "BACKWARD",
    "BREAK",
    "FORWARD",
    "HOST",
    "MADE_BY_PYTHON",
    "PARTS",
    "STEP",
    "Absorbed",
    "Alias",
    "Arg",
    "AtenGraph",
    "AxisOrder",
    "Bound",
    "Folded",
    "Fusion",
    "Hook",
    "HostStep",
    "HostWork",
    "Input",
    "Kernel",
    "KernelGraph",
    "KernelModule",
    "Launch",
    "Launches",
    "Literal",
    "LoweredNode",
    "Mapping",
    "Match",
    "Mutation",
    "Nearest",
    "Node",
    "Numbers",
    "Origin",
    "Placement",
    "RecordFormatError",
    "Ref",
    "Residence",
    "Rewrite",
    "Rewritten",
    "ScheduledKernel",
    "ScheduledProgram",
    "Sequence",
    "Snapshot",
    "StandsFor",
    "Storage",
    "TensorType",
    "Tree",
    "View",
    "Written",
    "between_text",
]

__getattr__ = submodules(__name__, "archive")
