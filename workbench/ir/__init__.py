"""The nouns of the workbench: plain frozen records, JSON in and out, free of torch, MLIR and Jupyter."""

from workbench.ir.codec import RecordFormatError
from workbench.ir.graph import Arg, AtenGraph, Input, Literal, Mutation, Node, Origin, Ref, Sequence, TensorType, Tree
from workbench.ir.kernels import (
    Absorbed,
    Fusion,
    Kernel,
    KernelGraph,
    KernelModule,
    Launch,
    Launches,
    LoweredNode,
    Mapping,
    ScheduledKernel,
    ScheduledProgram,
    Snapshot,
    Storage,
    View,
)

__all__ = [
    "Absorbed",
    "Arg",
    "AtenGraph",
    "Fusion",
    "Input",
    "Kernel",
    "KernelGraph",
    "KernelModule",
    "Launch",
    "Launches",
    "Literal",
    "LoweredNode",
    "Mapping",
    "Mutation",
    "Node",
    "Origin",
    "RecordFormatError",
    "Ref",
    "ScheduledKernel",
    "ScheduledProgram",
    "Sequence",
    "Snapshot",
    "Storage",
    "TensorType",
    "Tree",
    "View",
]
