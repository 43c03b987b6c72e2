"""The records of lowering, rendering and scheduling: nodes with routes, kernels, their MLIR, and their launches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from simulator.tileprogram.program import TileProgram
from workbench.ir import codec
from workbench.ir.dram_blocks import AxisOrder
from workbench.ir.graph import AtenGraph, Node, Numbers, TensorType
from workbench.ir.host_work import HostStep
from workbench.ir.rewrites import Rewrite

FORMAT, VERSION = "aten-workbench/kernel-graph", 1

HOST = "host"
"""The kind of a kernel that PyTorch computes on the host."""


@dataclass(frozen=True, slots=True)
class LoweredNode:
    """A node after decomposition, and the route by which it is computed."""

    node: Node
    route: str
    """template, builder, automatic, host or view."""
    kernel: str
    """The name of the node's kernel; empty for a view, which costs nothing."""
    rule: str
    """The decomposition that made the node, or the fusion rule that put it into its kernel; empty if it stands
    alone."""
    parent: str
    """The captured node from which the node was decomposed; its own name if it was not decomposed."""
    dialect: str = ""
    """The dialect of the node's builder; empty on other routes."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """One decision about an edge between two nodes, or about two products that read one operand: fused or refused, with
    the rule and the reason."""

    producer: str
    consumer: str
    fused: bool
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Bound:
    """Indices that a kernel reads: each must be at least `low` and less than `high`, or the kernel would leave its
    tensor."""

    value: str
    low: int
    high: int
    node: str
    argument: str
    """The indices' name in the overload's schema."""
    place: str
    """The user's line."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A set of nodes that become one MLIR function. `inputs` and `outputs` are values, in ABI order."""

    name: str
    kind: str
    """elementwise, reduction, contraction or opaque: the kind of the kernel's anchor. Or host: a step on the host."""
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    bounds: tuple[Bound, ...] = ()
    """The indices that are checked before each launch: a kernel itself never aborts."""


@dataclass(frozen=True, slots=True)
class View:
    """A value that is its base's memory with other strides: no kernel, no bytes."""

    value: str
    base: str
    """A value that is not itself a view."""


@dataclass(frozen=True, slots=True)
class KernelGraph:
    """The result of `lower`: every node has a route, and the kernels are named, in launch order."""

    captured: AtenGraph
    nodes: tuple[LoweredNode, ...]
    """The decomposed nodes, in topological order."""
    kernels: tuple[Kernel, ...]
    """The kernels, in launch order."""
    views: tuple[View, ...]
    types: dict[str, TensorType]
    """Types of every value, the captured ones and those that decompositions made.

    Strides and offset of a view are relative to its base's storage."""
    fusions: tuple[Fusion, ...]
    layouts: tuple[AxisOrder, ...] = ()
    """The order of axes for each storage that kernels use; empty if all tensors lie as PyTorch has them."""
    rewrites: tuple[Rewrite, ...] = ()
    """The changes that graph passes and patterns made to the captured graph before it was lowered."""
    merged: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """For each merged captured node: the other captured nodes that a pass or a pattern merged with it. The node's
    lowered nodes compute all of these."""

    def together(self, captured: str) -> tuple[str, ...]:
        """The captured nodes that are merged with a captured node, itself among them, in order."""
        names = captured, *self.merged.get(captured, ())
        return tuple(node.name for node in self.captured.nodes if node.name in names) if len(names) > 1 else names

    def node(self, name: str) -> LoweredNode:
        for lowered in self.nodes:
            if lowered.node.name == name:
                return lowered
        raise KeyError(name)

    def kernel(self, name: str) -> Kernel:
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise KeyError(name)

    @property
    def bases(self) -> dict[str, str]:
        """The base of each view."""
        return {view.value: view.base for view in self.views}

    @property
    def storages(self) -> tuple[str, ...]:
        """The values, none of them a view, whose storages kernels use, in the order of their first uses."""
        base = self.bases
        used = (value for kernel in self.kernels for value in (*kernel.inputs, *kernel.outputs))
        return tuple(dict.fromkeys(base.get(value, value) for value in used))

    def made_by_template(self, nodes: tuple[str, ...]) -> int:
        """The place of the node that a kernel's template computes among the kernel's nodes; the others are pointwise
        neighbours."""
        for place, name in enumerate(nodes):
            if self.node(name).route == "template":
                return place
        raise KeyError(nodes)

    def to_json(self) -> str:
        return codec.dumps(self, format=FORMAT, version=VERSION)

    @staticmethod
    def from_json(text: str) -> KernelGraph:
        """Returns the graph that `to_json` wrote; `RecordFormatError` for all else, and for a graph that makes no
        sense."""
        return codec.loads(KernelGraph, text, format=FORMAT, version=VERSION)


@dataclass(frozen=True, slots=True)
class Absorbed:
    """A node without an op of its own in the MLIR, and the reason, such as the op that took it in."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Hook:
    """A run of pointwise nodes as the body of one linalg op, which a template puts on its own tile."""

    place: int
    """The number of the input whose tile the hook works on, -1 for the output."""
    body: str
    """The op's block, from the label to the yield; every SSA name has a prefix of the hook's own."""
    origin: int
    """The kernel-local origin id of the hook's last node."""


@dataclass(frozen=True, slots=True)
class Written:
    """The template, machine and mapping for which a text was written; the text alone does not show these."""

    template: str
    """The template's class, with its module."""
    origin: int
    """The kernel-local origin id of the node for which the text was written."""
    machine: str
    """The machine's name, as people use it."""
    read: dict[str, str]
    """The machine's figures that the template read, with their values: for other values it may write another text."""
    asked: str
    """The user's mapping, as JSON; empty if there is none."""
    mapping: Mapping
    """The mapping for which the text was written, before the cores of a machine are known."""
    dims: dict[str, int]
    """Name and extent of every dim that a mapping may name."""


@dataclass(frozen=True, slots=True)
class KernelModule:
    """A kernel as verified MLIR: linalg on tensors, one function, arguments `(inputs..., outputs...)` as memrefs.

    A template's module is in the scheduled form already, and is scheduled unchanged.
    """

    kernel: str
    mlir: str
    """The text without locations, for readers and for the cache key; empty for a template's kernel that is not written
    yet."""
    located: str
    """The same module with kernel-local origin ids as locations."""
    arguments: tuple[TensorType, ...]
    origins: tuple[str, ...]
    """The lowered node's name for each kernel-local origin id."""
    absorbed: tuple[Absorbed, ...]
    handwritten: bool = False
    """True if the module comes from a template."""
    hooks: tuple[Hook, ...] = ()
    """The pointwise neighbours that share a template's kernel."""
    written: Written | None = None
    """The template, machine and mapping behind a template's text; None for other kernels, and until there is a text."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One step of the pass trace. Running `pipeline` on the previous snapshot's `mlir` gives this snapshot's `mlir`."""

    name: str
    pipeline: str
    seconds: float
    ops_before: int
    ops_after: int
    mlir: str


@dataclass(frozen=True, slots=True)
class Folded:
    """A node of a kernel that scheduling left without an instruction, by its kernel-local origin id."""

    origin: int
    reason: str


USER_SCRIPT: Final = "the user's script"
"""The reason of a mapping that has no tiles, because a script chooses them."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """The tiling of a kernel: the tile of each dim, the order of the loops, and the slots of a moved buffer."""

    tile: dict[str, int]
    order: tuple[str, ...]
    buffers: int
    cores: dict[str, int]
    reason: str
    """The reason for which the heuristic chose the mapping, or `user`."""
    spread: str = ""
    """The work of the machine's cores, and why some of them do nothing; empty on a machine of one core."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One run of a kernel: the tensors that it takes, and the launches that it waits for."""

    kernel: str
    """The name of the scheduled kernel that the launch runs; identical kernels of the graph share one."""
    name: str
    """The name of the graph's kernel that the launch runs."""
    arguments: tuple[str, ...]
    """Values, in ABI order."""
    addresses: tuple[int, ...]
    """DRAM byte address of each argument's storage."""
    after: tuple[int, ...]
    """Indices of the launches that this launch waits for: those whose results it reads, and those that still use the
    bytes that it writes, unless another wait implies them."""
    origins: tuple[str, ...]
    """The captured node's name for each kernel-local origin id."""


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes of DRAM that hold a value and its views, from launch `first` to launch `last`, both included.

    A storage that stays for the whole journey is there from -1 to the number of launches. Storages whose lifetimes do
    not meet may share bytes.
    """

    value: str
    address: int
    bytes: int
    first: int
    last: int

    @property
    def end(self) -> int:
        return self.address + self.bytes

    def overlaps(self, other: Storage) -> bool:
        """True if some byte belongs to both storages, at whatever time."""
        return self.address < other.end and other.address < self.end


@dataclass(frozen=True, slots=True)
class Launches:
    """The order in which a journey runs its kernels, and where its tensors lie in DRAM."""

    launches: tuple[Launch, ...]
    dram_bytes: int
    """The bytes of DRAM that the journey needs: the highest end of a storage."""
    storages: tuple[Storage, ...]
    """The storage of every value that is no view, those that stay for the whole journey first."""
    numbers: tuple[Numbers, ...] = ()
    """The traced contents of index tensors, each under the name of every argument that is a view of it."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ScheduledKernel:
    """A kernel in the scheduled form: native code and tile program are both read off `mlir`."""

    kernel: str
    mlir: str
    """The scheduled module without locations."""
    located: str
    """The same module with kernel-local origin ids as locations, from which the tile program is read. The JIT reads
    `mlir`, which is this text without locations."""
    schedule: str
    """The transform script that tiled and fused the kernel."""
    mapping: Mapping
    dims: dict[str, int]
    """Name and extent of every dim a mapping may name."""
    passes: tuple[Snapshot, ...]
    program: TileProgram = field(metadata=codec.APART)
    arguments: tuple[TensorType, ...]
    folded: tuple[Folded, ...] = ()
    """Nodes without an instruction, apart from those that rendering absorbed already."""


@dataclass(frozen=True, slots=True)
class Residence:
    """The place of a tensor between launches, in the common memory or in DRAM, and the reason."""

    value: str
    path: str
    """The user's text for the tensor, if it comes from outside; else empty."""
    bytes: int
    first: int
    last: int
    """The tensor stays, or would stay, from launch `first` to launch `last`."""
    alone: bool
    """True if the tensor is made and used up in this time, so that a resident tensor need not be in DRAM as well."""
    resident: bool = False
    saved_read: int = 0
    saved_written: int = 0
    """Bytes of DRAM traffic that the residence saves, or would save."""
    reason: str = ""
    refused: str = ""
    """The reason for which the tensor cannot be resident on any machine; empty if it can."""

    @property
    def saved(self) -> int:
        return self.saved_read + self.saved_written


@dataclass(frozen=True, slots=True)
class Placement:
    """The chiplet or policy that the user wants for a tensor."""

    value: str
    path: str
    """The user's text for the tensor, if it comes from outside; else empty."""
    chiplet: int | None = None
    """The chiplet whose memory holds the tensor; None if the tensor follows a policy."""
    policy: str = ""


@dataclass(frozen=True, slots=True)
class ScheduledProgram:
    """Every distinct kernel scheduled, and the order in which they are launched.

    Kernels of the graph with the same MLIR, arguments and mapping are one scheduled kernel, under the name of the first
    of them; each keeps a launch of its own, with its own addresses and origins.
    """

    kernels: tuple[ScheduledKernel, ...]
    """The kernels, in the order of their first launches."""
    launches: Launches
    hosts: tuple[HostStep, ...] = ()
    """The kernels of kind host, which are launched like the others but have no program."""
    residence: tuple[Residence, ...] = ()
    """The plan for the common memory, with a decision for each tensor in DRAM; empty without a plan."""
    placement: tuple[Placement, ...] = ()
    """The tensors for which the user chose a place; all others lie where the machine puts them."""

    def kernel(self, name: str) -> ScheduledKernel:
        for kernel in self.kernels:
            if kernel.kernel == name:
                return kernel
        raise KeyError(name)
