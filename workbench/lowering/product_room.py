"""The machine's figures that lowering reads, to decide which ops may share a kernel with a product.

Grouping knows no tiles. Of the machine it only needs to know if whole rows of a product's result fit, and if joining
several products or reductions saves enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from simulator import Machine
from simulator.machine.machine_record import matmul_passes
from simulator.machine.parts import FACTOR_BYTES, SINGLE_PASS_BYTES
from workbench.ir import KernelGraph, TensorType

_MANY: Final = 4
"""Rows per lane: with more, a reduction with half of the lanes empty takes longer than another launch."""

_HIDDEN: Final = 2.5
"""Arrays' time as a multiple of memory's time: from this on, loads are hidden completely."""

_LITTLE: Final = 0.01
"""The fraction of all cycles that joining must save: less does not outweigh the change of tiles."""

SLOTS: Final = 2
"""Slots of a buffer that is loaded or stored in a loop."""


FULL: Final = "no room for whole rows of the product: "
"""The beginning of a refusal that another machine may not give."""

FEW: Final = "as one kernel they gain nothing on this machine: "
"""The beginning of such a refusal for several products or reductions."""

ROWS: Final = "rows of a product"
"""The rule that fuses reductions of a product's rows, which needs whole rows."""

SHARED: Final = "products of one operand"
"""The rule that makes one kernel of several products."""


READ_ONCE: Final = "reductions of one operand"
"""The rule that makes one kernel of several reductions of one operand, and of pointwise ops beside them."""


@dataclass(frozen=True)
class Room:
    """A machine's figures for grouping: scratchpad, extents of array and lanes, speeds of arrays and memory."""

    scratchpad_bytes: int = 16 << 20
    array_rows: int = 128
    lanes: int = 128
    array_columns: int = 128
    macs_per_cycle: float = 32768
    wide_passes: int = 1
    double_passes: int = 24
    """Passes through an array for elements of more than four bytes; `wide_passes` are those for more than two bytes."""
    bytes_per_cycle: float = 430.08
    kernel_cycles: int = 842
    """Cycles of a kernel besides its work: the launch, and the latencies of its first load and its last store."""

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The figures that decide whether there is room for rows."""
        return self.scratchpad_bytes, self.array_rows, self.lanes

    def refuses_rows(self, rows: int, columns: int, depth: int, row_bytes: int, element_bytes: int) -> str:
        """The reason why a product of these extents cannot keep `columns` whole, empty if it can.

        The other operand is read once for every tile of rows. If a tile has half as many rows as the depth, that costs
        as much as storing the result and loading it again. With fewer rows than an array has, the array waits for
        weights.
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
        """The reason why reductions that together move `moved_bytes` gain nothing in one kernel, empty if they do gain.

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
        """The reason why `count` products of one operand, each of such tensors, cannot be one kernel, else empty.

        For each product, a tile of its other operand and of its result is in the scratchpad at once. One kernel saves
        launches, and loads of the shared operand unless these hide behind busy arrays. If that is little, the change of
        tiles matters more. Results that `meet` in a later op save their own trip through memory as well.
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
    """True if a machine with the figures `other` may group this graph differently."""
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
