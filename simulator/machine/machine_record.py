"""The figures of a machine: a plain record, which everything that looks at a machine may read.

Each figure has its unit in its name; which are published, and where, stands beside them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRecord:
    """One NPU. Figures are of each core, but those of memory, interconnect and host link, which all cores share."""

    name: str
    clock_mhz: float
    cores: int
    core_figures: str
    """What some cores have of their own, "" if all are alike: see core_kinds.py."""

    systolic_arrays: int
    systolic_rows: int
    systolic_columns: int
    systolic_preload_depth: int
    """Sets of weights, or of sums, that an array holds: with 2 one moves in or out while the other is in use."""
    dataflow: str
    """What stays in the array: weights or sums; see units/systolic.py."""
    systolic_selection: str
    """Where a product goes that continues none: to the array that would be free `earliest`, or to each `in_turn`."""
    matmul_precision: str
    """What the array multiplies in; affects time only, never the numbers. See `MATMUL_PASSES`."""
    weight_switch_cycles: int
    """Cycles in which an array takes no rows when the weights that wait in it take the place of those before."""
    accumulator_residence: str
    """`array`: partial sums stay beside the array until their K chain ends. `scratchpad`: every matmul drains them."""

    vector_lanes: int
    vector_bits_per_lane: int
    vector_alus: int
    """Vectors that add, multiply, compare or select in one cycle."""
    alu_latency_cycles: int
    special_latency_cycles: int
    special_interval_cycles: int
    """Cycles after which the special function unit takes its next vector."""
    cross_lane_step_cycles: int
    """One step of a reduction tree over the lanes."""
    transpose_cycles_per_vector: int

    scalar_accesses_per_cycle: int
    """Single elements the scalar unit asks for in a cycle, in DRAM or scratchpad."""
    scalar_outstanding: int
    """Its accesses that may be on their way at once."""
    scratchpad_latency_cycles: int
    """From a scalar access to the scratchpad to its answer."""

    scratchpad_bytes_per_lane: int
    common_memory_bytes: int
    """Memory that all cores share, beyond the scratchpads; 0 is none. What it keeps is planned:
    units/common_memory.py."""
    common_memory_bytes_per_second: int
    common_memory_latency_ns: float

    memory: str
    """`simple`: a fixed latency and one bus. `banked`: channels, banks and rows of `dram_timing`; see
    memory/banked/banks.py."""
    dram_standard: str
    dram_timing: str
    """The memory whose banks these are, shipped or a file; clocked as `dram_bytes_per_second` says."""
    dram_channels: int
    dram_request_bytes: int
    """Smallest piece the memory delivers; a shorter run costs as much."""
    dram_address: str
    """Where an address lies in banked memory, from the highest bits on: see `dram_file.FIELDS`."""
    dram_hash: str
    """Which of its fields are hashed: `none`, `xor` (the channel) or `all`; see `Memory.channel_hash`."""
    dram_refresh: str
    """Whether `all` banks of banked memory are refreshed at once, or `each` by itself; see `Memory.refreshes`."""
    dram_bytes_per_second: int
    dram_latency_ns: float
    interconnect: str
    """`simple`: a latency. `crossbar`, `mesh`: links that are held by what they carry; see topology.py,
    memory/network.py."""
    interconnect_latency_cycles: int
    """Of the way to the memory and back."""
    interconnect_ports: int
    """Of a crossbar, on the side of the queues; of a simple interconnect, requests to a simple memory in a cycle."""
    interconnect_link_bytes_per_cycle: int
    """What a link carries in one direction."""
    interconnect_packet_bytes: int
    """What a queue sends to a banked memory before another has its turn on a link."""
    mesh_columns: int
    mesh_rows: int
    mesh_hop_cycles: int
    """What the way from a router to the next adds to the latency, there and back together."""
    mesh_queues: str
    """Routers that DMA queues are attached to, in turn: "0,0 0,1" is column 0 of rows 0 and 1."""
    mesh_channels: str
    """Routers that channels of the memory are attached to, in turn."""

    chiplets: int
    """Parts with cores and channels of their own, and links between them: chiplets.py. 1 is a machine in one piece."""
    chiplet_links: str
    """Between which chiplets there is a link, each way: "0-1 1-2"; "" is one between any two."""
    chiplet_link_latency_cycles: int
    """What a link between chiplets adds to the latency, there and back together."""
    chiplet_link_bytes_per_cycle: int
    """What it carries in one direction."""
    dram_placement: str
    """Whose memory a page lies in: `interleaved`, all chiplets' in turn, or `local`, theirs who ask most;
    memory/chiplet_pages.py."""
    page_bytes: int
    """Bytes that lie in the memory of one chiplet together."""

    dma_queues: int
    dma_bytes_per_cycle: int
    """What one queue moves at most."""
    issue_interval_cycles: int
    """Cycles between two instructions leaving the program."""
    issue_window: int
    """Instructions that may be issued while an older one is not finished."""
    queue_depth: int
    """Instructions that wait in front of one unit."""
    launch_overhead_cycles: int

    host_link_bytes_per_second: int
    host_link_latency_us: float
    host_flops_per_second: int

    skips_zero_tiles: bool
    """Tiles of zeros are neither moved nor multiplied, where a tensor's numbers are known: units/zero_tiles.py."""

    mac_pj: float
    """Energy, in picojoules: one multiplication and addition in a systolic array. See analysis/energy.py for what is
    counted."""
    vector_op_pj: float
    special_op_pj: float
    scratchpad_pj_per_byte: float
    common_memory_pj_per_byte: float
    dram_pj_per_bit: float
    """Of what DRAM moves: array, I/O and PHY together."""
    dram_activate_pj: float

    assumed: tuple[str, ...] = ()
    """Figures that are not published: chosen, not known."""
    sources: tuple[tuple[str, str], ...] = ()
    """(figure, where it comes from) for all others."""

    @property
    def macs_per_cycle(self) -> int:
        """Products that all arrays of a core together add up in a cycle, at best: of factors that take one pass."""
        return self.systolic_arrays * self.systolic_rows * self.systolic_columns
