"""The lowered graph: nodes with routes, grouped into kernels, and what became of each as MLIR and as launches."""

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
    """A node after decomposition, with the way it will be made."""

    node: Node
    route: str
    """template, builder, automatic, host or view."""
    kernel: str
    """Name of its kernel; empty for a view, which costs nothing."""
    rule: str
    """The decomposition that made it, or the fusion rule that put it into its kernel; empty when it stands alone."""
    parent: str
    """The captured node it was decomposed from; its own name when it was not."""
    dialect: str = ""
    """The dialect of its builder; empty on other routes."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """One decision about an edge between two nodes, or two products that read one operand: fused or refused, by which
    rule, and why."""

    producer: str
    consumer: str
    fused: bool
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Bound:
    """Indices that a kernel is given: each at least `low` and less than `high`, or it would leave its tensor."""

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
    """elementwise, reduction, contraction or opaque: what its anchor is. Or host: no kernel, but a step on the host."""
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    bounds: tuple[Bound, ...] = ()
    """The indices that are checked before each launch: a kernel itself never aborts."""


@dataclass(frozen=True, slots=True)
class View:
    """A value that is other strides over a base value: no kernel, no bytes."""

    value: str
    base: str
    """A value that is not itself a view."""


@dataclass(frozen=True, slots=True)
class KernelGraph:
    """The result of `lower`: every node routed, every kernel named, in launch order."""

    captured: AtenGraph
    nodes: tuple[LoweredNode, ...]
    """In topological order, decomposed."""
    kernels: tuple[Kernel, ...]
    """In launch order."""
    views: tuple[View, ...]
    types: dict[str, TensorType]
    """Types of every value, the captured ones and those that decompositions made.

    Strides and offset of a view are relative to its base's storage."""
    fusions: tuple[Fusion, ...]
    layouts: tuple[AxisOrder, ...] = ()
    """An order for each storage that kernels use; empty if all tensors lie as PyTorch has them."""
    rewrites: tuple[Rewrite, ...] = ()
    """The changes that graph passes and patterns made to the captured graph before it was lowered."""
    merged: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """A captured node -> the others that a pass or a pattern made one with it: its lowered nodes are made of all."""

    def together(self, captured: str) -> tuple[str, ...]:
        """The captured nodes that are made as one with a captured node, itself among them, in order."""
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
        """View -> the value that it looks into."""
        return {view.value: view.base for view in self.views}

    @property
    def storages(self) -> tuple[str, ...]:
        """The values, none of them a view, whose storages kernels use, in the order of their first uses."""
        base = self.bases
        used = (value for kernel in self.kernels for value in (*kernel.inputs, *kernel.outputs))
        return tuple(dict.fromkeys(base.get(value, value) for value in used))

    def made_by_template(self, nodes: tuple[str, ...]) -> int:
        """Number of a kernel's nodes that its template computes; the others are pointwise neighbours."""
        for place, name in enumerate(nodes):
            if self.node(name).route == "template":
                return place
        raise KeyError(nodes)

    def to_json(self) -> str:
        return codec.dumps(self, format=FORMAT, version=VERSION)

    @staticmethod
    def from_json(text: str) -> KernelGraph:
        """The graph that `to_json` wrote; `RecordFormatError` for all else, and for a graph that makes no sense."""
        return codec.loads(KernelGraph, text, format=FORMAT, version=VERSION)


@dataclass(frozen=True, slots=True)
class Absorbed:
    """A node that left no op of its own in the MLIR, and what took it in."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Hook:
    """A run of pointwise nodes as the body of one linalg op, which a template puts on its own tile."""

    place: int
    """Which input's tile it works on, -1 for the output's."""
    body: str
    """Its block, from the label to the yield, every SSA name with a prefix of its own."""
    origin: int
    """Kernel-local origin id of its last node."""


@dataclass(frozen=True, slots=True)
class Written:
    """The template, machine and mapping that a text was written for, which the text alone does not show."""

    template: str
    """Its class, and the module of that."""
    origin: int
    """Kernel-local origin id of the node that it was written for."""
    machine: str
    """The machine as people call it."""
    read: dict[str, str]
    """The figures of the machine that the template read, each with its value: with others it may write another text."""
    asked: str
    """The user's mapping, as JSON; empty if there is none."""
    mapping: Mapping
    """The mapping that it was written for, before the cores of a machine are known."""
    dims: dict[str, int]
    """Name and extent of every dim that a mapping may name."""


@dataclass(frozen=True, slots=True)
class KernelModule:
    """A kernel as verified MLIR: linalg on tensors, one function, arguments `(inputs..., outputs...)` as memrefs.

    A template's is in the scheduled form already, and is scheduled as it stands.
    """

    kernel: str
    mlir: str
    """Text without locations, for readers and for the cache key. Empty for a template's kernel that
    is not written yet."""
    located: str
    """The same module with kernel-local origin ids as locations."""
    arguments: tuple[TensorType, ...]
    origins: tuple[str, ...]
    """Kernel-local origin id -> lowered node name."""
    absorbed: tuple[Absorbed, ...]
    handwritten: bool = False
    """It comes from a template."""
    hooks: tuple[Hook, ...] = ()
    """The pointwise neighbours that share a template's kernel."""
    written: Written | None = None
    """The template, machine and mapping behind a template's text; None for other kernels, and until there is a text."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One step of the pass trace. Running `pipeline` on the previous snapshot's `mlir` gives this one's."""

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
"""The reason of a mapping that says nothing about tiles, because a script does."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """The tiling of a kernel: the tile of each dim, the order of the loops, and the slots of a moved buffer."""

    tile: dict[str, int]
    order: tuple[str, ...]
    buffers: int
    cores: dict[str, int]
    reason: str
    """Why the heuristic chose it, or `user`."""
    spread: str = ""
    """The work of the machine's cores, and why not all of them do something; empty on a machine of one core."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One run of a kernel: the tensors that it takes, and the launches that it waits for."""

    kernel: str
    """Name of the scheduled kernel it runs; identical kernels of the graph share one."""
    name: str
    """Name of the graph's kernel that it is the run of."""
    arguments: tuple[str, ...]
    """Values, in ABI order."""
    addresses: tuple[int, ...]
    """DRAM byte address of each argument's storage."""
    after: tuple[int, ...]
    """Indices of the launches it waits for: those whose results it reads, and those that still use the bytes it
    writes, unless another wait implies them."""
    origins: tuple[str, ...]
    """Kernel-local origin id -> captured node name."""


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes of DRAM that a value and its views lie in, from launch `first` to launch `last`, both included.

    What stays for the whole journey is there from -1 to the number of launches. Storages whose lifetimes do not meet
    may share bytes.
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
    """Bytes that must be there: the highest that any storage takes."""
    storages: tuple[Storage, ...]
    """Every value that is no view, those that stay for the whole journey first."""
    numbers: tuple[Numbers, ...] = ()
    """The traced contents of index tensors, each under the name of every argument that is a view of it."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ScheduledKernel:
    """A kernel in the scheduled form: native code and tile program are both read off `mlir`."""

    kernel: str
    mlir: str
    """The scheduled module without locations."""
    located: str
    """The same module with kernel-local origin ids as locations: what the tile program is read off. The JIT reads
    `mlir`, which is this text without them."""
    schedule: str
    """The transform script that tiled and fused it."""
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
    """The user's text for it, where it is given from outside."""
    bytes: int
    first: int
    last: int
    """The launches from and to which it stays, or would."""
    alone: bool
    """It is made and used up meanwhile, so that while resident it need not be in DRAM as well."""
    resident: bool = False
    saved_read: int = 0
    saved_written: int = 0
    """Bytes of DRAM traffic that its residence spares, or would."""
    reason: str = ""
    refused: str = ""
    """Why it cannot be resident on any machine; empty if it can."""

    @property
    def saved(self) -> int:
        return self.saved_read + self.saved_written


@dataclass(frozen=True, slots=True)
class Placement:
    """The chiplet or policy that the user wants for a tensor."""

    value: str
    path: str
    """The user's text for it, where it is given from outside."""
    chiplet: int | None = None
    """In whose memory, or None where it follows a policy."""
    policy: str = ""


@dataclass(frozen=True, slots=True)
class ScheduledProgram:
    """Every distinct kernel scheduled, and the order in which they are launched.

    Kernels of the graph with the same MLIR, arguments and mapping are one here, under the name of the first of them;
    each keeps a launch of its own, with its own addresses and origins.
    """

    kernels: tuple[ScheduledKernel, ...]
    """In the order of their first launches."""
    launches: Launches
    hosts: tuple[HostStep, ...] = ()
    """The kernels of kind host, which are launched like the others but have no program."""
    residence: tuple[Residence, ...] = ()
    """The plan of what stays in the common memory, a decision for each tensor in DRAM; empty without a plan."""
    placement: tuple[Placement, ...] = ()
    """The tensors that the user has a place for; all others lie where the machine puts them."""

    def kernel(self, name: str) -> ScheduledKernel:
        for kernel in self.kernels:
            if kernel.kernel == name:
                return kernel
        raise KeyError(name)
