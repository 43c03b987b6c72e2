"""The parts of a machine: a frozen record for each, with the part's figures; a docstring explains each figure.

Names of figures include their units. Each figure also has a flat name, which overrides, knobs, tables and saved traces
use: `rows` of the arrays is `systolic_rows`. A field gives its flat name to `figure` if that differs from the field's
name; figure_places.py makes the table of all flat names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


def figure(flat: str = "", **values: Any) -> Mapping[str, Any]:
    """The metadata of a field: its flat name, if it is not the field's, and the values that the field may have, by the
    names of `figure_places.Place`."""
    return {"flat": flat, "values": values}


MATMUL_PASSES = {"bf16": 1, "bf16_3x": 3, "bf16_6x": 6, "f32": 1}
"""Passes of a product through the array, by precision. Products of f32 from bf16 parts take 3 passes for most digits,
6 for all."""

SINGLE_PASS_BYTES = 2
"""The most bytes of a factor that arrays multiply in one pass: bf16 and narrower types."""

FACTOR_BYTES = 4
"""The most bytes of a factor to which `MATMUL_PASSES` applies: wider factors are split into factors of this size."""


HASHES = ("none", "xor", "all")
"""The values of `Dram.hash`."""

REFRESHES = ("all", "each")
"""The values of `Dram.refresh`."""

PLACES_FORM = "routers as 'column,row', with spaces between them"
"""The form of `Network.mesh_queues` and `mesh_channels`."""

TILE_FORM = "rows x columns as '8x128', or '' for none"
"""The form of `Dram.tile`."""

LINKS_FORM = "two chiplets as '0-1', with spaces between links"
"""The form of `Chiplets.links`."""

POLICIES = ("interleaved", "local")
"""The values of `Chiplets.placement`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The cores, and the issue stage that each of them has."""

    count: int = field(metadata=figure("cores", most=4096))
    own_figures: str = field(metadata=figure("core_figures", may_be_empty=True))
    """The figures that differ between cores, as a text; "" if all cores are alike: see optional/uneven_cores."""
    issue_interval_cycles: int
    """Cycles from the issue of one instruction to the issue of the next."""
    issue_window: int
    """The most instructions in flight: an instruction issues once the one `issue_window` before it is complete."""
    queue_depth: int
    """The most instructions that wait in front of one unit."""
    launch_overhead_cycles: int = field(metadata=figure(may_be_zero=True))
    skips_zero_tiles: bool
    """True if tiles of zeros are neither moved nor multiplied, if a tensor's numbers are known: simulator/optional."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystolicArray:
    """The systolic arrays of a core, all alike."""

    count: int = field(metadata=figure("systolic_arrays", most=4096))
    rows: int = field(metadata=figure("systolic_rows"))
    columns: int = field(metadata=figure("systolic_columns"))
    preload_depth: int = field(metadata=figure("systolic_preload_depth", form="1 or 2"))
    """Sets of weights, or of sums, that an array holds: with 2, one set moves in or out while the other is in use."""
    dataflow: str = field(metadata=figure(choices=("weight_stationary", "output_stationary")))
    """The operand that stays in the array: weights or sums; see units/systolic.py."""
    selection: str = field(metadata=figure("systolic_selection", choices=("earliest", "in_turn")))
    """The array for a product that adds to no earlier sum: the one free `earliest`, or the arrays `in_turn`."""
    matmul_precision: str = field(metadata=figure(choices=tuple(MATMUL_PASSES)))
    """The precision of the array's products; affects time only, never the numbers. See `MATMUL_PASSES`."""
    weight_switch_cycles: int = field(metadata=figure(may_be_zero=True))
    """Cycles in which an array takes no rows while waiting weights take the place of the weights before."""
    accumulator_residence: str = field(metadata=figure(choices=("array", "scratchpad")))
    """`array`: partial sums stay beside the array until their K chain ends. `scratchpad`: every matmul drains them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorUnit:
    """The vector unit of a core."""

    lanes: int = field(metadata=figure("vector_lanes"))
    bits_per_lane: int = field(metadata=figure("vector_bits_per_lane", form="a multiple of 8"))
    narrowest_float_bytes: int = field(metadata=figure("vector_narrowest_float_bytes", most=8))
    """Bytes of the narrowest floats that the unit computes with. It widens narrower operands and narrows results."""
    conversion_operations: int = field(metadata=figure("vector_conversion_operations"))
    """ALU operations for widening or narrowing a vector once."""
    alus: int = field(metadata=figure("vector_alus"))
    """Vectors that the ALUs add, multiply, compare or select in one cycle."""
    alu_latency_cycles: int
    special_latency_cycles: int
    special_interval_cycles: int
    """Cycles after which the special function unit takes its next vector."""
    cross_lane_step_cycles: int = field(metadata=figure(may_be_zero=True))
    """Cycles of one step of a reduction tree over the lanes."""
    transpose_cycles_per_vector: int = field(metadata=figure(may_be_zero=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarUnit:
    """The scalar unit of a core."""

    accesses_per_cycle: int = field(metadata=figure("scalar_accesses_per_cycle"))
    """Single elements the scalar unit asks for in a cycle, in DRAM or scratchpad."""
    outstanding: int = field(metadata=figure("scalar_outstanding"))
    """The most accesses of the scalar unit that are on their way at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratchpad:
    """The scratchpad of a core, divided among its lanes."""

    bytes_per_lane: int = field(metadata=figure("scratchpad_bytes_per_lane"))
    latency_cycles: int = field(metadata=figure("scratchpad_latency_cycles"))
    """Cycles from a scalar access to the scratchpad to the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DmaQueues:
    """The queues of a core that move data between DRAM and scratchpad."""

    queues: int = field(metadata=figure("dma_queues", most=4096))
    bytes_per_cycle: int = field(metadata=figure("dma_bytes_per_cycle"))
    """The peak bandwidth of one queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonMemory:
    """Memory that all cores share, beyond the scratchpads. A plan decides its contents: see simulator/optional."""

    bytes: int = field(metadata=figure("common_memory_bytes", may_be_zero=True))
    """The size of the common memory; 0 if the machine has none."""
    bytes_per_second: int = field(metadata=figure("common_memory_bytes_per_second", may_be_zero=True))
    latency_ns: float = field(metadata=figure("common_memory_latency_ns", may_be_zero=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dram:
    """The memory behind the queues of all cores."""

    kind: str = field(metadata=figure("memory", choices=("simple", "banked")))
    """`simple`: a fixed latency and one bus. `banked`: channels, banks and rows of `timing`; see
    memory/banked/banks.py."""
    standard: str = field(metadata=figure("dram_standard"))
    timing: str = field(metadata=figure("dram_timing"))
    """The memory that gives the banks and their timing: a shipped name or a file. `bytes_per_second` sets its clock."""
    channels: int = field(metadata=figure("dram_channels", most=4096))
    request_bytes: int = field(metadata=figure("dram_request_bytes"))
    """The smallest piece that the memory moves; a shorter run costs as much."""
    address: str = field(metadata=figure("dram_address"))
    """The fields of an address in banked memory, from the highest bits on: see `dram_file.FIELDS`."""
    hash: str = field(metadata=figure("dram_hash", choices=HASHES))
    """The fields of an address that are hashed: `none`, `xor` (the channel) or `all`; see `Memory.channel_hash`."""
    refresh: str = field(metadata=figure("dram_refresh", choices=REFRESHES))
    """The banks that are refreshed together: `all` at once, or `each` by itself; see `Memory.refreshes`."""
    refresh_rate: int = field(metadata=figure("dram_refresh_rate", most=16))
    """A factor on the refreshes that the memory's file asks for: 2 above 85 degrees Celsius."""
    queue_entries: int = field(metadata=figure("dram_queue_entries", may_be_zero=True, most=1024))
    """The most reads, and the most writes, that a channel's controller holds; 0 takes the memory file's number."""
    stream_share: float = field(metadata=figure("dram_stream_share", most=1))
    """The part of the peak that long streams reach in a simple memory. In a banked memory the banks determine it."""
    tile: str = field(metadata=figure("dram_tile", may_be_empty=True, form=TILE_FORM))
    """Rows and columns of the blocks in which tensors of two and more dims lie in DRAM, padded to whole blocks; "" if
    they lie row after row. See units/tiled_tensors.py."""
    bytes_per_second: int = field(metadata=figure("dram_bytes_per_second"))
    latency_ns: float = field(metadata=figure("dram_latency_ns", may_be_zero=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The interconnect between queues and memory."""

    kind: str = field(metadata=figure("interconnect", choices=("simple", "crossbar", "mesh")))
    """`simple`: only a latency. `crossbar`, `mesh`: links, each of which carries one byte after another; see
    topology.py, memory/network.py."""
    latency_cycles: int = field(metadata=figure("interconnect_latency_cycles", may_be_zero=True))
    """Latency of the way to the memory and back."""
    ports: int = field(metadata=figure("interconnect_ports", most=4096))
    """Ports of a crossbar on the side of the queues; for a simple interconnect, requests to a simple memory in a
    cycle."""
    link_bytes_per_cycle: int = field(metadata=figure("interconnect_link_bytes_per_cycle"))
    """The bandwidth of a link in one direction."""
    packet_bytes: int = field(metadata=figure("interconnect_packet_bytes"))
    """Bytes that a queue sends to a banked memory before another queue has its turn on a link."""
    mesh_columns: int = field(metadata=figure(most=256))
    mesh_rows: int = field(metadata=figure(most=256))
    mesh_hop_cycles: int = field(metadata=figure(may_be_zero=True))
    """The latency that the way from one router to the next adds, there and back together."""
    mesh_queues: str = field(metadata=figure(form=PLACES_FORM))
    """The routers to which DMA queues are attached, in turn: "0,0 0,1" is column 0 of rows 0 and 1."""
    mesh_channels: str = field(metadata=figure(form=PLACES_FORM))
    """The routers to which channels of the memory are attached, in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chiplets:
    """Chiplets with cores and channels of their own, and links between them: machine/optional/chiplets_shape.py."""

    count: int = field(metadata=figure("chiplets", most=256))
    """Number of chiplets; 1 is a machine in one piece."""
    links: str = field(metadata=figure("chiplet_links", may_be_empty=True, form=LINKS_FORM))
    """The pairs of chiplets with a link in each direction: "0-1 1-2"; "" links every two chiplets."""
    link_latency_cycles: int = field(metadata=figure("chiplet_link_latency_cycles", may_be_zero=True))
    """The latency that a link between chiplets adds, there and back together."""
    link_bytes_per_cycle: int = field(metadata=figure("chiplet_link_bytes_per_cycle"))
    """The bandwidth of a link between chiplets in one direction."""
    placement: str = field(metadata=figure("dram_placement", choices=POLICIES))
    """The memory that holds a page: `interleaved`, all chiplets' memories in turn, or `local`, the memory of the
    chiplet with most of the page's traffic; see simulator/optional/chiplets."""
    page_bytes: int = field(metadata=figure(form="a power of two"))
    """Bytes of a page: these lie together in the memory of one chiplet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The host, and the link to it."""

    link_bytes_per_second: int = field(metadata=figure("host_link_bytes_per_second"))
    link_latency_us: float = field(metadata=figure("host_link_latency_us", may_be_zero=True))
    flops_per_second: int = field(metadata=figure("host_flops_per_second"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """The energy of each operation, in picojoules. See analysis/energy.py for the counts."""

    mac_pj: float = field(metadata=figure(may_be_zero=True))
    """Energy of one multiplication and addition in a systolic array."""
    vector_op_pj: float = field(metadata=figure(may_be_zero=True))
    special_op_pj: float = field(metadata=figure(may_be_zero=True))
    scratchpad_pj_per_byte: float = field(metadata=figure(may_be_zero=True))
    common_memory_pj_per_byte: float = field(metadata=figure(may_be_zero=True))
    dram_pj_per_bit: float = field(metadata=figure(may_be_zero=True))
    """Energy of a bit of DRAM traffic: array, I/O and PHY together."""
    dram_activate_pj: float = field(metadata=figure(may_be_zero=True))
