"""A user's option `layout`: the order in which the axes of tensors lie in DRAM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from simulator import Machine
from simulator.did_you_mean import did_you_mean, sentences
from simulator.machine.tile_form import Tile
from workbench.ground.argument_types import plain_value
from workbench.ground.errors import BadOption

GIVEN, LEAST = "given", "least"

UserLayout: TypeAlias = str | Mapping[str, Sequence[int]] | None
"""`given` (PyTorch's strides), `least` (least padding), orders of axes by tensor, or None (`least` with blocks)."""

_FORM = (
    "Expected 'given', 'least', None, or {'name of a tensor': (its axes, outermost first)}, "
    "as in {'fc1.weight': (1, 0)}"
)


@dataclass(frozen=True)
class Layout:
    """The user's layout, for one machine."""

    block: Tile | None = None
    """The machine's blocks, whose padding decides the orders of axes; None keeps PyTorch's strides."""
    named: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """(tensor, order of its axes), for the tensors that the user names."""


AS_GIVEN = Layout()


def checked_layout(given: object) -> UserLayout:
    """The user's layout; raises if its form is wrong. Lowering checks the names and axes."""
    if given is None or (isinstance(given, str) and given in (GIVEN, LEAST)):
        return given
    if not isinstance(given, Mapping):
        hint = did_you_mean(given, (GIVEN, LEAST)) if isinstance(given, str) else ""
        raise BadOption(sentences(f"layout={given!r} is no layout{hint}", _FORM))
    orders = cast("Mapping[str, object]", given)
    return {name: _axes(orders, name, axes) for name, axes in orders.items()}


def _axes(given: object, name: object, axes: object) -> tuple[int, ...]:
    listed = [plain_value(axis) for axis in cast("list[object]", axes)] if isinstance(axes, list | tuple) else [None]
    if not isinstance(name, str) or not all(isinstance(each, int) and not isinstance(each, bool) for each in listed):
        raise BadOption(sentences(f"layout={given!r}: {name!r} has the axes {axes!r}", _FORM))
    return tuple(cast("list[int]", listed))


def layout_on(machine: Machine, given: UserLayout) -> Layout:
    """The user's layout for this machine; raises if the machine has no blocks for `least`."""
    if given == LEAST and machine.dram_block is None:
        raise BadOption(
            f"layout={LEAST!r} is the order with the least padding, and {machine.label} pads no tensors: its dram_tile "
            "is empty. Take a machine with blocks, j.machine.with_(dram_tile='8x128'), or layout=None"
        )
    if given == GIVEN:
        return AS_GIVEN
    named = given if isinstance(given, Mapping) else dict[str, tuple[int, ...]]()
    return Layout(machine.dram_block, tuple((name, tuple(axes)) for name, axes in named.items()))
