"""The knobs of a kernel and of a journey: the current value of each, and values worth trying.

A knob does not know which values are allowed. Only setting a value shows that: the usual checks of the mapping, the
machine and the scheduled kernel may refuse it, with the reason.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from simulator import Machine
from simulator.did_you_mean import did_you_mean, sentences
from simulator.machine.figure_places import PLACES, figure
from simulator.machine.figures import choices_of, range_of
from workbench.explaining.views.graphs.titles import kernel_titles
from workbench.exploring.knobs.names_explained import FIGURE_WORDS, dim_words
from workbench.ground.errors import BadOption
from workbench.ir import ScheduledKernel, ScheduledProgram
from workbench.ir.kernel_names import with_full_kernel
from workbench.lowering.fusion_options import rules_off
from workbench.lowering.fusion_rules import SWITCHES, rule_text
from workbench.lowering.layout_options import GIVEN, LEAST
from workbench.scheduling.user_mapping import most_slots

if TYPE_CHECKING:
    from workbench.explaining.artefacts.staged import Staged
    from workbench.stages.journey_request import Request

Value: TypeAlias = int | float | str | bool | tuple[str, ...]
"""A number for a tile, buffers or cores; the dims for an order; True or False for a fusion rule; or a figure."""

TILE, ORDER, BUFFERS, CORES = "tile", "order", "buffers", "cores"
KERNELS: Final = (TILE, ORDER, BUFFERS, CORES)
"""Kinds of knobs that each kernel has."""
FUSION, LAYOUT, MACHINE = "fusion", "layout", "machine"
_ABOUT: Final = {
    BUFFERS: "tiles of an operand at a time",
    ORDER: "of the loops over tiles",
    LAYOUT: "the order in which axes of tensors lie in DRAM: as PyTorch has it, or with the least padding",
}
_NAMES_THE_MACHINE: Final = ("name", "core_figures")
_HALVINGS: Final = 4
"""The number of times that a tile is halved. With sixteen tiles only a sixteenth of the transfers is not hidden: more
tiles hide little more, and take long to try."""
_MOST_ORDERS: Final = math.factorial(4)
"""The most orders for which all are listed; if there are more, only orders that move one dim."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One option that can be turned."""

    name: str
    """`tile.m`, `order`, `buffers`, `cores.m`; for the journey `fusion.<rule>`, `layout` and `machine.<figure>`."""
    kernel: str
    """The kernel of the knob; empty for a knob of the whole journey."""
    value: Value
    """The current value."""
    values: tuple[Value, ...]
    """Values worth trying, in order, including the current one."""
    range: str
    """The possible values, in words."""

    @property
    def kind(self) -> str:
        return self.name.partition(".")[0]

    @property
    def item(self) -> str:
        """The dim, rule or figure."""
        return self.name.partition(".")[2]

    @property
    def about(self) -> str:
        """An explanation of the dim, the rule or the figure; empty if the name needs none."""
        if self.kind == FUSION:
            return rule_text(self.item)
        if self.kind == MACHINE:
            return FIGURE_WORDS.get(self.item, "")
        return _ABOUT.get(self.kind) or dim_words(self.item)


def text_of(value: Value) -> str:
    """A value as text."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return " ".join(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,g}" if isinstance(value, float) else value


def value_from(knob: Knob, text: str) -> Value:
    """Reads typed text as a value of the knob's kind; scheduling decides if it is allowed."""
    typed = text.strip()
    for value in (knob.value, *knob.values):
        if typed == text_of(value):
            return value
    if isinstance(knob.value, bool):
        raise BadOption(f"{knob.name} = {typed!r}: expected {text_of(True)} or {text_of(False)}")
    if isinstance(knob.value, tuple):
        return tuple(typed.replace(",", " ").split())
    if isinstance(knob.value, str):
        return typed
    for kind in (int, float):
        with suppress(ValueError):
            return kind(typed.replace(",", ""))
    raise BadOption(f"{knob.name} = {typed!r}: expected a number, {knob.range}")


def kernel_names(scheduled: ScheduledProgram) -> list[str]:
    """The names of the graph's kernels that have knobs: all but steps on the host."""
    hosts = {step.kernel for step in scheduled.hosts}
    return [launch.name for launch in scheduled.launches.launches if launch.kernel not in hosts]


def kernel_of(journey: Staged, given: str) -> str:
    """The full name of a kernel of the graph. `given` may also be its number, `k0`, its title, or a part of the title
    that no other kernel has: `c1` of `c1 + relu`."""
    scheduled = journey.scheduled.record
    hosts = {step.kernel for step in scheduled.hosts}
    names = kernel_names(scheduled)
    if (name := with_full_kernel(given, names)) in names:
        return name
    if given in hosts:
        raise BadOption(f"{given!r} is computed by PyTorch on the host, so it has no knobs")
    titles = kernel_titles(journey.lowered.record)
    words = {name: _words_of(titles[name]) for name in names if name in titles}
    titled = [name for name in words if given in words[name]]
    if len(titled) == 1:
        return titled[0]
    if titled:
        raise BadOption(f"{given!r} is in the titles of {len(titled)} kernels: name one of {', '.join(titled)}")
    known = [*names, *sorted(set[str]().union(*words.values()))]
    what = f"no kernel has the name {given!r}{did_you_mean(given, known)}"
    raise BadOption(sentences(what, f"The kernels are {', '.join(names) or 'none'}"))


def _words_of(title: str) -> set[str]:
    """A title, its parts, and the title without the ops in parentheses: `softmax` of `softmax (exp)`."""
    return {title, *title.split(" + "), title.partition(" (")[0]}


def scheduled_kernel(scheduled: ScheduledProgram, name: str) -> ScheduledKernel:
    """The scheduled kernel that a kernel of the graph, given by name, runs."""
    runs = {launch.name: launch.kernel for launch in scheduled.launches.launches}
    return scheduled.kernel(runs[name])


def kernel_knobs(name: str, kernel: ScheduledKernel, machine: Machine) -> tuple[Knob, ...]:
    """The knobs of a kernel. If a user's script sets tiles, order and cores, only the buffers are left."""
    mapping, knobs = kernel.mapping, list[Knob]()
    for dim, size in mapping.tile.items():
        extent = kernel.dims[dim]
        knobs.append(Knob(f"{TILE}.{dim}", name, size, _with(_halves(extent, size), size), f"1 to {extent:,}"))
    if mapping.order:
        orders = tuple(dict.fromkeys([mapping.order, *_orders(kernel)]))
        knobs.append(Knob(ORDER, name, mapping.order, orders, "each dim once, outermost first"))
    most = most_slots(mapping.tile, kernel.dims)
    knobs.append(Knob(BUFFERS, name, mapping.buffers, _with(_doubles(most), mapping.buffers), f"1 to {most:,}"))
    most = len(machine.shares)
    if most > 1:
        for dim in mapping.tile:
            count = mapping.cores.get(dim, 1)
            knobs.append(Knob(f"{CORES}.{dim}", name, count, _with(_doubles(most), count), f"1 to {most:,}"))
    return tuple(knobs)


def _halves(extent: int, today: int) -> set[int]:
    """The whole extent, its half, quarter and so on, and half and twice the current value."""
    halves = {-(-extent // 2**power) for power in range(_HALVINGS + 1)}
    return halves | {-(-today // 2), min(2 * today, extent)}


def _doubles(most: int) -> set[int]:
    return {2**power for power in range(most.bit_length())} | {most}


def _with(values: Iterable[int], today: int) -> tuple[int, ...]:
    return tuple(sorted({*values, today}))


def _orders(kernel: ScheduledKernel) -> Iterable[tuple[str, ...]]:
    """Orders of the dims that have a loop; dims with a single tile keep their positions."""
    mapping = kernel.mapping
    looped = [dim for dim in mapping.order if mapping.tile[dim] < -(-kernel.dims[dim] // mapping.cores.get(dim, 1))]
    if math.factorial(len(looped)) <= _MOST_ORDERS:
        ways: Iterable[tuple[str, ...]] = itertools.permutations(looped)
    else:
        ways = (_moved(looped, dim, place) for dim in looped for place in range(len(looped)))
    for way in ways:
        turns = iter(way)
        yield tuple(next(turns) if dim in looped else dim for dim in mapping.order)


def _moved(dims: list[str], dim: str, place: int) -> tuple[str, ...]:
    others = [each for each in dims if each != dim]
    return (*others[:place], dim, *others[place:])


def journey_knobs(request: Request) -> tuple[Knob, ...]:
    """The knobs of the whole journey: fusion rules, the layout if the machine pads tensors, and its figures."""
    off = rules_off(request.fusion)
    rules = [Knob(f"{FUSION}.{name}", "", name not in off, (True, False), "on or off") for name in SWITCHES]
    return (*rules, *_layout_knob(request), *machine_knobs(request.machine))


def _layout_knob(request: Request) -> Iterator[Knob]:
    """The layout's knob; none without blocks, or if orders of single tensors are given, which the knob would drop."""
    layout = request.layout or LEAST
    if request.machine.dram_block and isinstance(layout, str):
        yield Knob(LAYOUT, "", layout, (GIVEN, LEAST), f"{GIVEN} or {LEAST}")


def machine_knobs(machine: Machine) -> tuple[Knob, ...]:
    """The knobs for a machine's figures; for a number, its half and its double are worth trying."""
    knobs = list[Knob]()
    for name, place in PLACES.items():
        if name in _NAMES_THE_MACHINE:
            continue
        value: Any = figure(machine, name)
        values: tuple[Value, ...] = choices_of(name, place.kind) or (value,)
        if place.kind == "int":
            values = tuple(sorted({value // 2 or value, value, 2 * value}))
        elif place.kind == "float":
            values = tuple(sorted({value / 2, value, 2 * value}))
        knobs.append(Knob(f"{MACHINE}.{name}", "", value, values, range_of(name, place.kind)))
    return tuple(knobs)
