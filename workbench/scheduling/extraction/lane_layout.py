"""The axis of each tile that lies along the lanes of the scratchpad.

A DMA lays contiguous DRAM words along the lanes, one word to a lane, so a loaded or stored tile has the layout that its
tensor has in DRAM. A product leaves its columns along the lanes. Any other tile has the layout of the operands of the
pass that makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simulator.tileprogram.program import Space
from workbench.mlir.instruction_forms import Axes, Description
from workbench.scheduling.extraction.memref_boxes import Box


@dataclass
class Layouts:
    """Layouts collected while a program is extracted: buffers by number, axes by their stride in the buffer."""

    lanes: dict[int, int] = field(default_factory=dict[int, int])
    """The stride of the axis along the lanes, for each buffer."""
    spans: dict[int, int] = field(default_factory=dict[int, int])
    """For each buffer, the number of elements from the first to the last along the lanes, gaps included."""
    passes: dict[int, tuple[Description, list[Box]]] = field(default_factory=dict[int, tuple[Description, list[Box]]])
    """One instruction of each op on tiles: its description and the boxes of its operands."""

    def moved(self, source: Box, target: Box) -> None:
        """Records a copy between DRAM and a tile."""
        dram, tile = (source, target) if source.space == Space.DRAM else (target, source)
        for axis, stride in enumerate(dram.strides):
            if stride == 1 and dram.shape[axis] > 1:
                self._lies(tile, axis)

    def used(self, op: int, description: Description, boxes: list[Box]) -> None:
        """Records an instruction of an op on tiles; the first is enough, since all tiles of an op have one layout."""
        self.passes.setdefault(op, (description, boxes))

    def contiguous(self) -> dict[int, tuple[int, ...]]:
        """For each operand of each op, the loop over the axis that lies along the lanes; -1 if there is none.

        Passes come in program order, so the layouts of a pass's operands are known before its result's.
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
        """Records that an axis of a tile, or of a part of it, lies along the lanes; a known layout stays."""
        stride = tile.strides[axis]
        if self.lanes.setdefault(tile.target, stride) == stride:
            self.spans[tile.target] = max(self.spans.get(tile.target, 0), stride * tile.shape[axis])

    def _of_operands(self, description: Description, boxes: Sequence[Box]) -> int:
        """The loop over the lanes in the operand with the most axes whose layout is known; -1 if there is none."""
        known = [operand for operand, box in enumerate(boxes) if box.target in self.lanes]
        loops = {operand: self._loop(description.walked, operand, boxes[operand]) for operand in known}
        widest = max(
            (operand for operand in known if loops[operand] >= 0), key=lambda each: len(boxes[each].shape), default=-1
        )
        return loops.get(widest, -1)

    def _loop(self, walked: tuple[Axes, ...], operand: int, box: Box) -> int:
        """The loop that walks an operand along the lanes: element by element, else in steps, as a strided pool does."""
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
