"""The figures of a machine by which lowering decides what may share a kernel with a product.

Grouping knows no tiles. It needs to know whether whole rows of a product's result fit, and nothing else of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from simulator import Machine
from workbench.ir import KernelGraph

_MANY: Final = 4
"""Rows for each lane: of so many, a reduction with half of the lanes empty takes longer than another launch."""

SLOTS: Final = 2
"""Slots of a buffer that is moved in a loop."""


FULL: Final = "no room for whole rows of the product: "
"""How a refusal begins that another machine may not give."""

FEW: Final = "no room for tiles of all these products: "
"""The same of several products."""

ROWS: Final = "rows of a product"
"""The rule that asks for them."""

SHARED: Final = "products of one operand"
"""The rule that makes one kernel of several products."""


@dataclass(frozen=True)
class Room:
    """The scratchpad, and the extents that fill an array and the lanes."""

    scratchpad_bytes: int = 16 << 20
    array_rows: int = 128
    lanes: int = 128
    array_columns: int = 128

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

    def refuses_products(self, count: int, left_bytes: int, right_bytes: int) -> str:
        """Why so many products of one operand, with elements of these bytes, cannot be one kernel.

        A tile of each one's other operand and of its result is in the scratchpad at once.
        """
        tile = self.array_rows * max(self.array_columns, self.lanes)
        wanted = SLOTS * tile * (left_bytes + count * (right_bytes + max(left_bytes, right_bytes)))
        if wanted > self.scratchpad_bytes:
            return FEW + f"{count} of them take {wanted:,} bytes of the scratchpad's {self.scratchpad_bytes:,}"
        return ""


def counts(graph: KernelGraph) -> bool:
    """Whether another room may group a graph in another way."""
    products = {kernel.name for kernel in graph.kernels if kernel.kind == "contraction"}
    kernel_of = {item.node.name: item.kernel for item in graph.nodes}
    return any(
        fusion.reason.startswith((FULL, FEW))
        or (fusion.fused and fusion.rule == SHARED)
        or (fusion.fused and fusion.rule in (ROWS, "reduction prologue") and kernel_of[fusion.consumer] in products)
        for fusion in graph.fusions
    )


TPU_V3: Final = Room()
"""That of the default machine."""


def room_of(machine: Machine) -> Room:
    return Room(machine.scratchpad_bytes, machine.array.rows, machine.vector.lanes, machine.array.columns)
