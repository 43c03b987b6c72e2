"""Along which axis each tile lies over the lanes of the scratchpad.

A DMA lays contiguous DRAM words along the lanes, one to each, so a tile that is loaded or stored lies there as its
tensor does in DRAM. A product leaves its columns along the lanes. Any other tile lies like the operands of the pass
that makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simulator.tileprogram.program import Space
from workbench.mlir.instruction_forms import Axes, Description
from workbench.scheduling.extraction.memref_boxes import Box


@dataclass
class Layouts:
    """Facts collected while a program is read off; buffers go by number, axes by their stride in the buffer."""

    lanes: dict[int, int] = field(default_factory=dict[int, int])
    spans: dict[int, int] = field(default_factory=dict[int, int])
    """Elements of a tile that lie along the lanes, from the first to behind the last."""
    passes: dict[int, tuple[Description, list[Box]]] = field(default_factory=dict[int, tuple[Description, list[Box]]])

    def moved(self, source: Box, target: Box) -> None:
        """A copy between DRAM and a tile."""
        dram, tile = (source, target) if source.space == Space.DRAM else (target, source)
        for axis, stride in enumerate(dram.strides):
            if stride == 1 and dram.shape[axis] > 1:
                self._lies(tile, axis)

    def used(self, op: int, description: Description, boxes: list[Box]) -> None:
        """One instruction of an op on tiles: any will do, since all of an op's tiles lie alike."""
        self.passes.setdefault(op, (description, boxes))

    def contiguous(self) -> dict[int, tuple[int, ...]]:
        """For each op, and each operand of it, the loop along whose axis the operand lies over the lanes; -1 for none.

        Passes come in program order, so the operands of a tile are settled before the tile.
        """
        for description, boxes in self.passes.values():
            columns = description.products[2] or (-1,) if description.products else ()
            loop = columns[-1] if columns else self._of_operands(description, boxes)
            for operand, axis in description.walked[loop] if loop >= 0 else ():
                if not description.products or operand == len(boxes) - 1:
                    self._lies(boxes[operand], axis)
        return {
            number: tuple(self._loop(description.walked, operand, box) for operand, box in enumerate(boxes))
            for number, (description, boxes) in self.passes.items()
        }

    def _lies(self, tile: Box, axis: int) -> None:
        """A tile, or a part of one, whose axis lies along the lanes; where the tile is known to lie, it stays."""
        stride = tile.strides[axis]
        if self.lanes.setdefault(tile.target, stride) == stride:
            self.spans[tile.target] = max(self.spans.get(tile.target, 0), stride * tile.shape[axis])

    def _of_operands(self, description: Description, boxes: Sequence[Box]) -> int:
        """The loop over the lanes in an operand that is known, the one with the most axes."""
        known = [operand for operand, box in enumerate(boxes) if box.target in self.lanes]
        loops = {operand: self._loop(description.walked, operand, boxes[operand]) for operand in known}
        widest = max(
            (operand for operand in known if loops[operand] >= 0), key=lambda each: len(boxes[each].shape), default=-1
        )
        return loops.get(widest, -1)

    def _loop(self, walked: tuple[Axes, ...], operand: int, box: Box) -> int:
        """The loop along the lanes of an operand, if need be in steps, as a pool with a stride takes it."""
        stride, span = self.lanes.get(box.target, 1), self.spans.get(box.target, 0)
        stepped = -1
        for loop, axes in enumerate(walked):
            for owner, axis in axes:
                if owner != operand or box.shape[axis] == 1:
                    continue
                if box.strides[axis] == stride:
                    return loop
                if (box.shape[axis] - 1) * box.strides[axis] < span and not box.strides[axis] % stride:
                    stepped = loop
        return stepped
