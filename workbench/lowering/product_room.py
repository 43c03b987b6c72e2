"""The figures of a machine by which lowering decides what may share a kernel with a product.

Grouping knows no tiles. It needs to know whether whole rows of a product's result fit, and nothing else of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from simulator import Machine
from simulator.machine.machine_record import matmul_passes
from simulator.machine.parts import FACTOR_BYTES, SINGLE_PASS_BYTES
from workbench.ir import KernelGraph, TensorType

_MANY: Final = 4
"""Rows for each lane: of so many, a reduction with half of the lanes empty takes longer than another launch."""

_HIDDEN: Final = 2.5
"""Times as long as memory the arrays take: then nothing that memory does is seen."""

_LITTLE: Final = 0.01
"""Of all cycles: less is not worth other tiles."""

SLOTS: Final = 2
"""Slots of a buffer that is moved in a loop."""


FULL: Final = "no room for whole rows of the product: "
"""The beginning of a refusal that another machine may not give."""

FEW: Final = "as one kernel they gain nothing on this machine: "
"""The same of several products, or of several reductions."""

ROWS: Final = "rows of a product"
"""The rule that asks for them."""

SHARED: Final = "products of one operand"
"""The rule that makes one kernel of several products."""


READ_ONCE: Final = "reductions of one operand"
"""The rule that makes one kernel of several reductions, and of pointwise ops beside them."""


@dataclass(frozen=True)
class Room:
    """The scratchpad, the extents that fill an array and the lanes, and how fast arrays and memory are."""

    scratchpad_bytes: int = 16 << 20
    array_rows: int = 128
    lanes: int = 128
    array_columns: int = 128
    macs_per_cycle: float = 32768
    wide_passes: int = 1
    double_passes: int = 24
    """Passes through an array of a product whose elements have more than four bytes; above, more than two."""
    bytes_per_cycle: float = 430.08
    kernel_cycles: int = 842
    """Cycles of a kernel besides its work: the launch, and the latencies of its first load and its last store."""

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The figures that decide whether there is room for rows."""
        return self.scratchpad_bytes, self.array_rows, self.lanes

    def refuses_rows(self, rows: int, columns: int, depth: int, row_bytes: int, element_bytes: int) -> str:
        """Why a product of these extents cannot keep `columns` whole, empty when it can.

        The other operand is read once for every tile of rows. With tiles of half as many rows as the depth, that costs
        as much as to store the result and to load it again. Fewer rows than an array has leave it waiting for weights.
        """
        if 2 * columns <= self.lanes and rows > _MANY * self.lanes:
            return FULL + (
                f"{rows:,} of them with {columns} elements would leave most of {self.lanes} lanes empty, where a "
                "tensor in DRAM can have its rows along the lanes"
            )
        tall = min(rows, max(self.array_rows, -(-depth // 2)))
        deep = min(depth, self.array_rows)
        wanted = SLOTS * (tall * row_bytes + deep * (columns + tall) * element_bytes)
        if wanted > self.scratchpad_bytes:
            return FULL + (
                f"{tall} of them, with all that is kept of them, take {wanted:,} bytes of the "
                f"scratchpad's {self.scratchpad_bytes:,}; with fewer the other operand would be loaded too often"
            )
        return ""

    def refuses_long_rows(self, row_bytes: int, moved_bytes: int) -> str:
        """Why reductions that together move so much gain nothing in one kernel, empty when they do.

        Rows that do not fit are loaded for each reduction, in one kernel as in several. Then only a launch is saved.
        """
        saved, memory = self.kernel_cycles, moved_bytes / self.bytes_per_cycle
        if SLOTS * row_bytes <= self.scratchpad_bytes or saved >= _LITTLE * memory:
            return ""
        return FEW + (
            f"a row takes {row_bytes:,} bytes, and two of them do not fit into the scratchpad's "
            f"{self.scratchpad_bytes:,}, so each reduction loads it anew"
        )

    def refuses_products(
        self, count: int, shared: TensorType, other: TensorType, result: TensorType, depth: int, *, meet: bool
    ) -> str:
        """Why so many products of one operand, each of such tensors, cannot be one kernel, empty when they can.

        A tile of each one's other operand and of its result is in the scratchpad at once. What they save is a kernel's
        own cycles, and loads of the shared operand, unless those hide behind busy arrays. Where that is little, other
        tiles make more of a difference. Results that `meet` in a later op save their own way through memory as well.
        """
        tile = self.array_rows * self.array_columns
        wanted = SLOTS * tile * (shared.element_bytes + count * (other.element_bytes + result.element_bytes))
        if wanted > self.scratchpad_bytes:
            return FEW + f"tiles of {count} take {wanted:,} bytes of the scratchpad's {self.scratchpad_bytes:,}"
        widest = max(shared.element_bytes, other.element_bytes)
        passes = (
            1 if widest <= SINGLE_PASS_BYTES else self.wide_passes if widest <= FACTOR_BYTES else self.double_passes
        )
        arrays = count * result.numel * depth * passes / self.macs_per_cycle
        again, *rest = (kind.numel * kind.element_bytes / self.bytes_per_cycle for kind in (shared, other, result))
        memory = count * (again + sum(rest))
        saved = (count - 1) * (self.kernel_cycles + (again if arrays < _HIDDEN * memory else 0))
        if not meet and saved < _LITTLE * max(arrays, memory):
            return FEW + (
                f"of the {max(arrays, memory):,.0f} cycles that the {'arrays' if arrays > memory else 'memory'} must "
                f"take for them at least, some {saved:,.0f} would be saved"
            )
        return ""


def counts(graph: KernelGraph, room: Room, other: Room) -> bool:
    """True if another room may group a graph in another way."""
    products = {kernel.name for kernel in graph.kernels if kernel.kind == "contraction"}
    kernel_of = {item.node.name: item.kernel for item in graph.nodes}
    of_rows = any(
        fusion.reason.startswith(FULL)
        or (fusion.fused and fusion.rule in (ROWS, "reduction prologue") and kernel_of[fusion.consumer] in products)
        for fusion in graph.fusions
    )
    of_several = any(kernel.kind == "reduction" and len(kernel.outputs) > 1 for kernel in graph.kernels) or any(
        FEW in fusion.reason or (fusion.rule == SHARED and fusion.fused) for fusion in graph.fusions
    )
    return (of_rows and room.sizes != other.sizes) or (of_several and room != other)


TPU_V3: Final = Room()
"""The figures of the default machine."""


def room_of(machine: Machine) -> Room:
    return Room(
        machine.scratchpad_bytes,
        machine.array.rows,
        machine.vector.lanes,
        machine.array.columns,
        float(machine.peak_macs_per_cycle),
        matmul_passes(machine, FACTOR_BYTES),
        matmul_passes(machine, 2 * FACTOR_BYTES),
        float(machine.bus_bytes_per_cycle),
        machine.core.launch_overhead_cycles + 2 * machine.dram_latency_cycles,
    )
