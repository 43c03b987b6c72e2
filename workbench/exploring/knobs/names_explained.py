"""Explanations of a machine's figures and of a kernel's dims, for readers who see their names for the first time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FIGURE_WORDS: Final[Mapping[str, str]] = {
    "accumulator_residence": "where partial sums wait: beside the array, or in the scratchpad after each product",
    "alu_latency_cycles": "from a vector's operands to its result",
    "chiplet_link_bytes_per_cycle": "bytes that a link carries in one direction",
    "chiplet_link_latency_cycles": "there and back together",
    "chiplet_links": "the pairs of chiplets with a link; empty: any two",
    "chiplets": "parts with cores and channels of their own",
    "common_memory_bytes": "a memory that all cores share; 0 is none",
    "common_memory_pj_per_byte": "read or written (changes j.simulated.energy alone)",
    "cross_lane_step_cycles": "one step of a reduction over the lanes",
    "dataflow": "the operand that stays in the array: weights or sums",
    "dma_bytes_per_cycle": "the most that one queue moves",
    "dma_queues": "the most transfers of a core in flight at once",
    "dram_activate_pj": "opening one row (changes j.simulated.energy alone)",
    "dram_address": "the bits of an address for channel, bank, row and column",
    "dram_bytes_per_second": "the peak rate of all channels together",
    "dram_hash": "the parts of an address that are hashed over channels and banks",
    "dram_pj_per_bit": "moving it: array, I/O and PHY (changes j.simulated.energy alone)",
    "dram_placement": "the chiplet in whose memory a page is",
    "dram_queue_entries": "requests that a channel's controller holds, each way; 0: as the memory's file says",
    "dram_refresh": "of all banks at once, or of single banks",
    "dram_refresh_rate": "as often as the standard asks, or twice: hot memory",
    "dram_request_bytes": "the smallest piece the memory delivers; a shorter run costs as much",
    "dram_stream_share": "the part of the peak that long streams reach, with simple memory",
    "dram_tile": "the blocks in which tensors lie, padded to whole ones; empty: row after row",
    "dram_timing": "the kind of banked memory, shipped or a file",
    "host_flops_per_second": "the host's rate for ops without a route to the NPU",
    "interconnect": "from queues to memory: a latency, or links that transfers occupy",
    "interconnect_latency_cycles": "the way to the memory and back",
    "interconnect_link_bytes_per_cycle": "bytes that a link carries in one direction",
    "interconnect_packet_bytes": "bytes that a queue sends before another has its turn",
    "interconnect_ports": "links on the side of the queues, or requests a cycle",
    "issue_interval_cycles": "between the issue of two instructions",
    "issue_window": "instructions issued while an older one is not finished",
    "launch_overhead_cycles": "before a kernel's first instruction",
    "mac_pj": "one multiplication and addition in the array (changes j.simulated.energy alone)",
    "matmul_precision": "the array's element type: changes the time, never the numbers",
    "memory": "one bus with a latency, or channels, banks and rows",
    "mesh_channels": "the routers of the memory channels: column,row ...",
    "mesh_hop_cycles": "from a router to the next, there and back",
    "mesh_queues": "the routers of the DMA queues: column,row ...",
    "page_bytes": "bytes that stay together in one chiplet's memory",
    "queue_depth": "the most instructions that wait for one unit",
    "scalar_accesses_per_cycle": "single elements that the scalar unit requests",
    "scalar_outstanding": "the scalar unit's accesses in flight at once",
    "scratchpad_bytes_per_lane": "on-chip memory of a core, for each vector lane",
    "scratchpad_latency_cycles": "from a scalar access to its answer",
    "scratchpad_pj_per_byte": "read or written (changes j.simulated.energy alone)",
    "skips_zero_tiles": "tiles of zeros are neither moved nor multiplied",
    "special_interval_cycles": "between two vectors in the unit for exp, tanh and the like",
    "special_latency_cycles": "from operands to result in the unit for exp, tanh and the like",
    "special_op_pj": "one element of exp, log and the like (changes j.simulated.energy alone)",
    "systolic_arrays": "arrays of multipliers in a core",
    "systolic_columns": "of multipliers: columns of the result",
    "systolic_preload_depth": "sets of weights, or of sums, of an array: with 2 one moves while the other is used",
    "systolic_rows": "of multipliers: terms of a sum where weights stay, rows of the result where sums stay",
    "systolic_selection": "the array for the next product",
    "vector_alus": "vectors that add, multiply, compare or select in one cycle",
    "vector_conversion_operations": "to widen or narrow a float that the vector unit does not compute with",
    "vector_lanes": "that compute side by side, each vector_bits_per_lane wide",
    "vector_narrowest_float_bytes": "narrower floats are widened before a pass and narrowed after it",
    "vector_op_pj": "an operation on one element (changes j.simulated.energy alone)",
    "weight_switch_cycles": "when waiting weights replace the current ones",
}
"""Explanations of the figures whose names are not clear."""

_WORDS: Final = {
    "b": "batch",
    "g": "groups",
    "c": "channels",
    "m": "rows of the result",
    "n": "columns of the result",
    "k": "terms of each sum",
    "oc": "channels of the result",
    "ic": "channels that are summed",
    "od": "planes of the result",
    "oh": "rows of the result",
    "ow": "columns of the result",
    "kd": "planes of the window",
    "kh": "rows of the window",
    "kw": "columns of the window",
}
"""Explanations of the names that `mlir/linalg_loops.py` gives to loops."""


def dim_words(dim: str) -> str:
    """The explanation of a dim, whose name may have a number: `oh` is "rows of the result", `d1` "axis 1". Empty for a
    name that a template or a user gave."""
    name, number = dim.rstrip("0123456789"), dim[len(dim.rstrip("0123456789")) :]
    if name == "d" and number:
        return f"axis {number}"
    return _WORDS.get(name, "")
