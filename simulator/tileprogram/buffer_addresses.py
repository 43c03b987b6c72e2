"""Places buffers in the scratchpad: side by side if they fit, else in turn at one address.

A buffer is in use from the first instruction that touches it to the last, in program order. Buffers that are not in
use at once may share bytes, but then the first writers of the later buffer must wait for the last users of those bytes:
a REUSE dependence, a wait that exists only for want of room. A pipeline that could have run ahead across the border of
two loops stops there. So bytes are shared only if all buffers side by side would exceed the scratchpad, and then in
the layout that costs least:

    gently    buffers in order of first use, each on unused bytes while there are any, then on the bytes whose last use
              lies furthest back
    tightly   if the gentle layout does not fit: largest buffers first, each at the lowest free offset

A program needs the peak of its layout: of the tight layout, if not even that fits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.errors import SMALLER, DoesNotFit
from simulator.tileprogram.hazards import DependenceTracker
from simulator.tileprogram.program import I64, Buffer, Space, TileProgram


def placed(program: TileProgram, capacity: int) -> TileProgram:
    """Returns the program with its buffers laid out for a scratchpad of `capacity` bytes, unchanged if they fit.

    Otherwise the result has new offsets, and dependences derived again for the shared bytes.
    """
    if program.scratchpad_bytes <= capacity:
        return program
    offsets = dict[int, int]()
    for core in sorted({buffer.core for buffer in program.buffers}):
        offsets |= _of_one_core(program, core, capacity)
    buffers = tuple(
        dataclasses.replace(buffer, offset=offsets[number]) for number, buffer in enumerate(program.buffers)
    )
    return ordered(dataclasses.replace(program, buffers=buffers))


def ordered(program: TileProgram) -> TileProgram:
    """Returns the program with its dependences derived again from the operands of its instructions."""
    tracker = DependenceTracker(program.buffers)
    waits = [tracker.add(program.instruction(index)) for index in range(len(program))]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in waits])]).astype(np.int64)
    return dataclasses.replace(
        program,
        dependence_start=starts,
        dependence=np.array([source for each in waits for source, _ in each], np.int32),
        dependence_kind=np.array([kind for each in waits for _, kind in each], np.uint8),
    )


def _of_one_core(program: TileProgram, core: int, capacity: int) -> dict[int, int]:
    """Buffer number -> offset, for the buffers of one core."""
    numbers = [number for number, buffer in enumerate(program.buffers) if buffer.core == core]
    every = in_use(program)
    uses = [every[number] for number in numbers]
    offsets = _gently(uses, capacity) or _tightly(uses)
    return {numbers[place]: offset for place, offset in offsets.items()}


@dataclass(frozen=True, slots=True)
class Use:
    """A buffer's size, and the first and the last instruction that touch it; the last is -1 if none does."""

    size: int
    first: int
    last: int

    def meets(self, other: Use) -> bool:
        """True if both are in use at some instruction."""
        return self.first <= other.last and other.first <= self.last


def in_use(program: TileProgram) -> list[Use]:
    """For each buffer of a program, its size and the instructions between which it is in use."""
    owner = program.owners()
    here = program.space == Space.SCRATCHPAD
    first: I64 = np.full(len(program.buffers), len(program))
    last: I64 = np.full(len(program.buffers), -1)
    np.minimum.at(first, program.target[here], owner[here])
    np.maximum.at(last, program.target[here], owner[here])
    return [
        Use(buffer.bytes, begin, end)
        for buffer, begin, end in zip(program.buffers, first.tolist(), last.tolist(), strict=True)
    ]


def check_fit(program: TileProgram, capacity: int, advice: str = SMALLER) -> None:
    """Raises `DoesNotFit` if the buffers, at their offsets, need more than `capacity` bytes.

    The error names the buffers to shrink: the buffers in use at the peak, or all if none share bytes.
    """
    if program.scratchpad_bytes <= capacity:
        return
    core = max(program.buffers, key=lambda buffer: buffer.offset + buffer.bytes).core
    crowd = [buffer for buffer in program.buffers if buffer.core == core]
    if sum(buffer.bytes for buffer in crowd) > program.scratchpad_bytes:
        crowd = in_use_at_once(program, core)
    sizes = sorted(((buffer.name, buffer.bytes) for buffer in crowd), key=lambda pair: -pair[1])
    raise DoesNotFit(program.kernel, program.scratchpad_bytes, capacity, sizes, advice, program)


def in_use_at_once(program: TileProgram, core: int) -> list[Buffer]:
    """A core's buffers in use at the instruction with most bytes in use: every layout needs at least these bytes."""
    pairs = zip(in_use(program), program.buffers, strict=True)
    used = [(use, buffer) for use, buffer in pairs if buffer.core == core]
    moments = sorted({use.first for use, _ in used})
    at_once = [[buffer for use, buffer in used if use.first <= now <= use.last] for now in moments]
    return max(at_once, key=lambda buffers: sum(buffer.bytes for buffer in buffers), default=list[Buffer]())


def clashes(program: TileProgram) -> Iterator[tuple[Buffer, Buffer]]:
    """Yields pairs of buffers that share bytes although both are in use at some instruction, which is an error."""
    pairs = sorted(zip(program.buffers, in_use(program), strict=True), key=lambda pair: (pair[0].core, pair[0].offset))
    for index, (low, use) in enumerate(pairs):
        for high, other in pairs[index + 1 :]:
            if high.core > low.core or high.offset >= low.offset + low.bytes:
                break
            if use.meets(other):
                yield low, high


def _gently(uses: Sequence[Use], capacity: int) -> dict[int, int] | None:
    """Offsets by the gentle layout; None if a buffer finds no place within the capacity."""
    offsets: dict[int, int] = {}
    for number in sorted(range(len(uses)), key=lambda number: (uses[number].first, number)):
        choices = [
            (max((uses[other].last for other in _below(offsets, uses, offset, number)), default=-1), offset)
            for offset in _free(offsets, uses, number)
            if offset + uses[number].size <= capacity
        ]
        if not choices:
            return None
        offsets[number] = min(choices)[1]
    return offsets


def _tightly(uses: Sequence[Use]) -> dict[int, int]:
    offsets: dict[int, int] = {}
    for number in sorted(range(len(uses)), key=lambda number: (-uses[number].size, uses[number].first, number)):
        offsets[number] = min(_free(offsets, uses, number))
    return offsets


def _free(offsets: dict[int, int], uses: Sequence[Use], number: int) -> Iterator[int]:
    """Yields 0 and the ends of placed buffers, where buffer `number` would meet no buffer that is in use with it."""
    for offset in sorted({0, *(start + uses[other].size for other, start in offsets.items())}):
        if not any(uses[number].meets(uses[other]) for other in _below(offsets, uses, offset, number)):
            yield offset


def _below(offsets: dict[int, int], uses: Sequence[Use], offset: int, number: int) -> Iterator[int]:
    """Yields the placed buffers with which buffer `number` at `offset` would share bytes."""
    for other, start in offsets.items():
        if start < offset + uses[number].size and offset < start + uses[other].size:
            yield other
