"""Short stretches. A DMA queue moves up to its width in a cycle, to consecutive addresses. A row shorter than the width
leaves part of it empty, so a tile of many short rows takes a cycle for each, however few its bytes: an image of 14 x 14
pixels with its channels outermost moves 56 bytes at a time, and its rows fill 14 lanes in every vector pass. With the
channels innermost (`torch.channels_last`) a row is all channels of a pixel. Tensors in blocks have no such rows:
lowering gives their axes the order with the least padding, in whichever order PyTorch has them.

The remedy of short transfers is a wider tile, if one with fewer stretches makes the run faster: it is scheduled and
simulated before it is advised. Where rows are short because a tensor's innermost axis is, the remedy is `layout=`, with
another axis innermost. Other kernels may read that tensor along the short axis, so everything is done anew before
that is advised."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from simulator.analysis.binding import MEMORY
from simulator.tileprogram.program import Opcode
from workbench.explaining.findings import LEAST_SHARE, ComputedFacts, Facts, Finding, Remedy, finding, percent
from workbench.explaining.findings.longer_rows import another_axis_innermost, stretches
from workbench.explaining.findings.mapping_remedies import wider_tile
from workbench.explaining.findings.run_facts import bytes_of
from workbench.explaining.findings.source_changes import CHANNELS_LAST, call_of
from workbench.ir import TensorType

_OF_MODULES = "model.to(memory_format=torch.channels_last), and the images too"
_OF_FUNCTIONS = "x.to(memory_format=torch.channels_last) of each image"
SHORT = 0.5
"""A stretch below this share of a queue's width is short."""
_OF_WINDOWS = ("b", "c", "oc", "oh", "ow", "ic")
"""Dims along which a kernel with windows has several tiles; a mean has all channels in one tile."""
_TRANSFERS = ("load transfer", "store transfer")
_OVER_PLACES = ("aten.mean.", "aten.sum.", "aten.amax.")
_OF_IMAGES = ("aten.conv2d", "aten.convolution", "aten.max_pool2d", "aten.avg_pool2d", "aten._native_batch_norm_legit")


@finding("short transfers")
def short_transfers(facts: Facts) -> Iterator[Finding]:
    use, width = facts.memory_use, facts.machine.dma.bytes_per_cycle
    for kernel in facts.computed:
        stake, spans = _lost(facts, kernel, SHORT * width)
        if stake:
            stretch, run = (int(np.median(of[list(spans)])) for of in (use.stretch, use.run))
            worth = stake >= LEAST_SHARE * facts.cycles
            remedy, predicted = longer_rows(facts, kernel, spans) if worth else (None, None)
            yield Finding(
                kernel.name,
                stake,
                f"tiles are moved {stretch} bytes at a time, {percent(stretch, width)} of the {width} that a queue "
                f"moves in a cycle{f', though {run:,} bytes lie together in DRAM' if run > stretch else ''}",
                spans,
                remedy=remedy,
                predicted=predicted,
                about=MEMORY,
            )


@finding("channels outermost")
def channels_outermost(facts: Facts) -> Iterator[Finding]:
    """One finding for all kernels with images, since one line of Python changes the layout of all of them."""
    if facts.machine.dram_block:  # "padded tensors" looks at the order of axes in blocks
        return
    lost, shown, images = 0, list[int](), _images(facts)
    for kernel in facts.computed:
        of = [images[value] for launch in kernel.launches for value in launch.arguments if value in images]
        if of and "g" in kernel.scheduled.dims:
            lost -= _longer_of_groups(facts, kernel)
        elif of:
            saved = _saved_by_rows(facts, kernel, of) + _saved_by_lanes(facts, kernel, of)
            lost += min(saved, 0) if _channels_apart(kernel) else saved
            shown += [*kernel.showing(*_TRANSFERS), *kernel.showing("vector")]
    if lost > 0:
        written = _OF_MODULES if _has_modules(facts) else _OF_FUNCTIONS
        yield Finding(
            "",
            lost,
            f"images have their channels outermost, so their rows are short: {percent(lost, facts.cycles)} of "
            "all cycles; with the channels innermost a row has all channels of a pixel",
            tuple(sorted(shown)),
            remedy=Remedy(call_of(CHANNELS_LAST, written), change=CHANNELS_LAST),
            about=MEMORY,
        )


def _lost(facts: Facts, kernel: ComputedFacts, shorter: float) -> tuple[int, tuple[int, ...]]:
    """Cycles of the critical path that full stretches would save, and the copies with these cycles."""
    use = facts.memory_use
    width, rate = facts.machine.dma.bytes_per_cycle, float(facts.machine.bus_bytes_per_cycle)
    spans = _copies(facts, kernel)
    spans = spans[use.stretch[spans] < shorter]
    least = np.maximum(use.requested[spans] / rate, use.asked[spans] / width)
    useless = 1 - least.sum() / max(use.cycles[spans].sum(), 1)
    on_path = sum(kernel.path_of(span, *_TRANSFERS) for span in spans.tolist())
    lost = max(0, round(on_path * useless))
    return lost, tuple(spans.tolist()) if lost else ()


def _copies(facts: Facts, kernel: ComputedFacts) -> npt.NDArray[np.int64]:
    """The loads and stores of stretches on the critical path."""
    spans = np.array(kernel.showing(*_TRANSFERS), np.int64)
    copied = np.isin(facts.trace.kind[spans], [Opcode.LOAD, Opcode.STORE])
    return spans[copied & (facts.memory_use.stretch[spans] > 0)]


def longer_rows(facts: Facts, kernel: ComputedFacts, spans: tuple[int, ...]) -> tuple[Remedy | None, int | None]:
    """A wider tile that saves cycles by fewer stretches, and these cycles; else the remedy that puts another axis of
    the tensors innermost. Images are left to *channels outermost*, which changes all of them together."""
    wider = wider_tile(facts, kernel, lambda program: stretches(program, facts.machine))
    if wider is not None:
        return wider.remedy, wider.saved
    copies = {int(facts.trace.instr[span]) for span in spans}
    remedy = another_axis_innermost(facts, kernel, copies, _images(facts))
    after = facts.cycles_anew(remedy) if remedy and facts.cycles_anew else None
    return (remedy, facts.cycles - after) if after is not None and after < facts.cycles else (None, None)


def _saved_by_rows(facts: Facts, kernel: ComputedFacts, images: list[TensorType]) -> int:
    """The cycles that transfers would save or lose if a row had all channels of a pixel instead of a channel's
    pixels."""
    use, trace, machine = facts.memory_use, facts.trace, facts.machine
    width, rate, mapping = machine.dma.bytes_per_cycle, float(machine.bus_bytes_per_cycle), kernel.scheduled.mapping
    spans = _copies(facts, kernel)
    read, written = _rows(images)
    loads = trace.kind[spans] == Opcode.LOAD
    row = np.where(loads, read, written)
    asked, cycles = use.asked[spans], np.maximum(use.cycles[spans], 1)
    looped = any(size < kernel.scheduled.dims[dim] for dim, size in mapping.tile.items() if dim in _OF_WINDOWS)
    beside = min(machine.dma.queues, mapping.buffers if looped else 1)  # tiles in flight at a time
    together = row / -(-row // width) * beside
    more, latency = _halo(facts, kernel, images[0])
    after = asked * np.where(loads, more, 1) / np.minimum(rate, together)
    on_path = np.array([kernel.path_of(span, *_TRANSFERS) for span in spans.tolist()])
    if "oh" not in kernel.scheduled.dims:  # one tile, with no other in flight
        return round(float(on_path.sum() - after.sum()))
    return round(float((on_path * (1 - after / cycles)).sum()) - latency)


def _halo(facts: Facts, kernel: ComputedFacts, image: TensorType) -> tuple[float, int]:
    """For windows over single channels, as in a pool: the factor of the bytes read, and the added latency.

    With its channels outermost an image is tiled by channels, and no pixel is read twice. With them innermost a tile of
    the same size holds all channels of a few rows, and tiles overlap by their halo rows. These transfers are then no
    longer hidden behind the vector passes, so the passes' saving is not counted.
    """
    made = kernel.scheduled
    if not _channels_apart(kernel):
        return 1.0, 0
    dims, tile = made.dims, made.mapping.tile
    stride = max(1, image.shape[2] // dims["oh"])
    rows = max(1, tile["c"] * tile["oh"] * tile["ow"] // (dims["c"] * dims["ow"]))

    def read(rows: int) -> float:
        return ((rows - 1) * stride + dims["kh"]) / (rows * stride)

    tiles = dims.get("b", 1) * -(-dims["oh"] // rows)
    latency = -(-tiles // made.mapping.buffers) * facts.machine.dram_latency_cycles
    return read(rows) / read(tile["oh"]), max(0, latency - kernel.part("load latency"))


def _channels_apart(kernel: ComputedFacts) -> bool:
    """True if windows move over single channels."""
    return {"c", "oh", "ow", "kh"} <= set(kernel.scheduled.dims)


def _saved_by_lanes(facts: Facts, kernel: ComputedFacts, images: list[TensorType]) -> int:
    """The cycles that vector passes would save or lose if their lanes were along the channels."""
    lanes = facts.machine.vector.lanes
    size = max(kernel.scheduled.program.arguments[-1].element_bytes, 1)
    channels = _rows(images)[1] // size
    after = channels / (-(-channels // lanes) * lanes)
    return round(kernel.part("vector") * (1 - kernel.filled_lanes(lanes) / after))


def _rows(images: list[TensorType]) -> tuple[int, int]:
    """Bytes of all channels of a pixel: in a kernel's first input, and in its result."""
    sizes = [kind.shape[1] * bytes_of(kind) // max(kind.numel, 1) for kind in images]
    return max(sizes[0], 1), max(sizes[-1], 1)


def _has_modules(facts: Facts) -> bool:
    return any(given.kind == "parameter" for given in facts.lowered.captured.inputs)


def _longer_of_groups(facts: Facts, kernel: ComputedFacts) -> int:
    """The cycles that transfers would lose with the channels innermost if there are several groups.

    A tile holds one group, so a row is then the channels of a group."""
    use, made = facts.memory_use, kernel.scheduled
    row = max(made.dims.get("ic", 1), made.dims.get("oc", 1)) * made.program.arguments[-1].element_bytes
    spans = [span for span in kernel.showing(*_TRANSFERS) if use.stretch[span] > row]
    on_path = np.array([kernel.path_of(span, *_TRANSFERS) for span in spans])
    after = use.asked[spans] / row * -(-row // facts.machine.dma.bytes_per_cycle) / np.maximum(use.cycles[spans], 1)
    return round(float((on_path * np.maximum(after - 1, 0)).sum()))


def _images(facts: Facts) -> dict[str, TensorType]:
    """The images that convolutions, pools and means read, or that convolutions and pools make, if they have their
    channels outermost, and more than one channel and pixel."""
    types, found, made = facts.lowered.types, set[str](), set[str]()
    for node in facts.lowered.captured.nodes:
        if node.op.startswith(_OF_IMAGES):
            found.update((node.operands[0], *node.results))
            made.update(node.results)
        elif node.op.startswith(_OVER_PLACES):
            found |= made & set(node.operands)
        elif any(value in made and types[value].shape == types[node.results[0]].shape for value in node.operands):
            made.update(node.results)  # an activation keeps the pixels
    return {value: types[value] for value in found if _channels_outermost(types[value])}


def _channels_outermost(kind: TensorType) -> bool:
    return len(kind.shape) == 4 and kind.strides[3] == 1 and kind.strides[1] != 1 and min(kind.shape[1:]) > 1
