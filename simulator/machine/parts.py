"""The parts of a machine: a plain frozen record each, with the figures of that part and what each of them means.

Names of figures include their units. Each figure has a flat name as well, which overrides, knobs, tables and saved
traces use: `rows` of the arrays is `systolic_rows`. The field states it where it differs from the field's name;
figure_places.py makes the one table of these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

FLAT = "flat"
"""The key of a flat name in a field's metadata."""


def flat(name: str) -> Mapping[str, str]:
    """The metadata of a field whose flat name is another than its own."""
    return {FLAT: name}


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The cores, and the issue stage that each of them has."""

    count: int = field(metadata=flat("cores"))
    own_figures: str = field(metadata=flat("core_figures"))
    """Figures of some cores' own, "" if all are alike: see core_kinds.py."""
    issue_interval_cycles: int
    """Cycles between two instructions leaving the program."""
    issue_window: int
    """Instructions that may be issued while an older one is not finished."""
    queue_depth: int
    """Instructions that wait in front of one unit."""
    launch_overhead_cycles: int
    skips_zero_tiles: bool
    """Tiles of zeros are neither moved nor multiplied, where a tensor's numbers are known: units/zero_tiles.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystolicArray:
    """The systolic arrays of a core, all alike."""

    count: int = field(metadata=flat("systolic_arrays"))
    rows: int = field(metadata=flat("systolic_rows"))
    columns: int = field(metadata=flat("systolic_columns"))
    preload_depth: int = field(metadata=flat("systolic_preload_depth"))
    """Sets of weights, or of sums, that an array holds: with 2 one moves in or out while the other is in use."""
    dataflow: str
    """What stays in the array: weights or sums; see units/systolic.py."""
    selection: str = field(metadata=flat("systolic_selection"))
    """The array for a product that continues none: the one that would be free `earliest`, or each `in_turn`."""
    matmul_precision: str
    """The precision of the array's products; affects time only, never the numbers. See `MATMUL_PASSES`."""
    weight_switch_cycles: int
    """Cycles in which an array takes no rows when the weights that wait in it take the place of those before."""
    accumulator_residence: str
    """`array`: partial sums stay beside the array until their K chain ends. `scratchpad`: every matmul drains them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorUnit:
    """The vector unit of a core."""

    lanes: int = field(metadata=flat("vector_lanes"))
    bits_per_lane: int = field(metadata=flat("vector_bits_per_lane"))
    alus: int = field(metadata=flat("vector_alus"))
    """Vectors that add, multiply, compare or select in one cycle."""
    alu_latency_cycles: int
    special_latency_cycles: int
    special_interval_cycles: int
    """Cycles after which the special function unit takes its next vector."""
    cross_lane_step_cycles: int
    """One step of a reduction tree over the lanes."""
    transpose_cycles_per_vector: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarUnit:
    """The scalar unit of a core."""

    accesses_per_cycle: int = field(metadata=flat("scalar_accesses_per_cycle"))
    """Single elements the scalar unit asks for in a cycle, in DRAM or scratchpad."""
    outstanding: int = field(metadata=flat("scalar_outstanding"))
    """Its accesses that may be on their way at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratchpad:
    """The scratchpad of a core, divided among its lanes."""

    bytes_per_lane: int = field(metadata=flat("scratchpad_bytes_per_lane"))
    latency_cycles: int = field(metadata=flat("scratchpad_latency_cycles"))
    """From a scalar access to the scratchpad to its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DmaQueues:
    """The queues of a core that move data between DRAM and scratchpad."""

    queues: int = field(metadata=flat("dma_queues"))
    bytes_per_cycle: int = field(metadata=flat("dma_bytes_per_cycle"))
    """The peak bandwidth of one queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonMemory:
    """Memory that all cores share, beyond the scratchpads. A plan decides its contents: units/common_memory.py."""

    bytes: int = field(metadata=flat("common_memory_bytes"))
    """0 is none."""
    bytes_per_second: int = field(metadata=flat("common_memory_bytes_per_second"))
    latency_ns: float = field(metadata=flat("common_memory_latency_ns"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dram:
    """The memory behind the queues of all cores."""

    kind: str = field(metadata=flat("memory"))
    """`simple`: a fixed latency and one bus. `banked`: channels, banks and rows of `timing`; see
    memory/banked/banks.py."""
    standard: str = field(metadata=flat("dram_standard"))
    timing: str = field(metadata=flat("dram_timing"))
    """The memory whose banks these are, shipped or a file; clocked as `bytes_per_second` says."""
    channels: int = field(metadata=flat("dram_channels"))
    request_bytes: int = field(metadata=flat("dram_request_bytes"))
    """Smallest piece the memory delivers; a shorter run costs as much."""
    address: str = field(metadata=flat("dram_address"))
    """Where an address lies in banked memory, from the highest bits on: see `dram_file.FIELDS`."""
    hash: str = field(metadata=flat("dram_hash"))
    """Which of its fields are hashed: `none`, `xor` (the channel) or `all`; see `Memory.channel_hash`."""
    refresh: str = field(metadata=flat("dram_refresh"))
    """Whether `all` banks of banked memory are refreshed at once, or `each` by itself; see `Memory.refreshes`."""
    bytes_per_second: int = field(metadata=flat("dram_bytes_per_second"))
    latency_ns: float = field(metadata=flat("dram_latency_ns"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The interconnect between queues and memory."""

    kind: str = field(metadata=flat("interconnect"))
    """`simple`: a latency. `crossbar`, `mesh`: links that are held by what they carry; see topology.py,
    memory/network.py."""
    latency_cycles: int = field(metadata=flat("interconnect_latency_cycles"))
    """Latency of the way to the memory and back."""
    ports: int = field(metadata=flat("interconnect_ports"))
    """Ports of a crossbar on the side of the queues; for a simple interconnect, requests to a simple memory in a
    cycle."""
    link_bytes_per_cycle: int = field(metadata=flat("interconnect_link_bytes_per_cycle"))
    """The bandwidth of a link in one direction."""
    packet_bytes: int = field(metadata=flat("interconnect_packet_bytes"))
    """Bytes that a queue sends to a banked memory before another has its turn on a link."""
    mesh_columns: int
    mesh_rows: int
    mesh_hop_cycles: int
    """The latency that the way from one router to the next adds, there and back together."""
    mesh_queues: str
    """Routers that DMA queues are attached to, in turn: "0,0 0,1" is column 0 of rows 0 and 1."""
    mesh_channels: str
    """Routers that channels of the memory are attached to, in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chiplets:
    """Chiplets with cores and channels of their own, and links between them: chiplets.py."""

    count: int = field(metadata=flat("chiplets"))
    """1 is a machine in one piece."""
    links: str = field(metadata=flat("chiplet_links"))
    """Between which chiplets there is a link, each way: "0-1 1-2"; "" is one between any two."""
    link_latency_cycles: int = field(metadata=flat("chiplet_link_latency_cycles"))
    """The latency that a link between chiplets adds, there and back together."""
    link_bytes_per_cycle: int = field(metadata=flat("chiplet_link_bytes_per_cycle"))
    """Its bandwidth in one direction."""
    placement: str = field(metadata=flat("dram_placement"))
    """The memory that holds a page: `interleaved`, all chiplets' in turn, or `local`, that of the chiplet with most of
    its traffic; memory/chiplet_pages.py."""
    page_bytes: int
    """Bytes that lie in the memory of one chiplet together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The host, and the link to it."""

    link_bytes_per_second: int = field(metadata=flat("host_link_bytes_per_second"))
    link_latency_us: float = field(metadata=flat("host_link_latency_us"))
    flops_per_second: int = field(metadata=flat("host_flops_per_second"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """The energy of each operation, in picojoules. See analysis/energy.py for the counts."""

    mac_pj: float
    """One multiplication and addition in a systolic array."""
    vector_op_pj: float
    special_op_pj: float
    scratchpad_pj_per_byte: float
    common_memory_pj_per_byte: float
    dram_pj_per_bit: float
    """DRAM traffic: array, I/O and PHY together."""
    dram_activate_pj: float
