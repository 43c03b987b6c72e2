"""Figures of a machine one by one: their kinds and allowed values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from simulator.did_you_mean import did_you_mean
from simulator.errors import MachineError
from simulator.machine.chiplets import LINKS_FORM, POLICIES, check_links
from simulator.machine.dram_file import HASHES, REFRESHES
from simulator.machine.figure_places import Figure
from simulator.machine.machine_record import MachineRecord
from simulator.machine.topology import PLACES_FORM, check_places

MATMUL_PASSES = {"bf16": 1, "bf16_3x": 3, "bf16_6x": 6, "f32": 1}
"""How often a product goes through the array: f32 from bf16 parts takes 3 (most of the digits) or 6 (all) products."""

_CHOICES = {
    "matmul_precision": tuple(MATMUL_PASSES),
    "accumulator_residence": ("array", "scratchpad"),
    "memory": ("simple", "banked"),
    "dram_hash": HASHES,
    "dram_refresh": REFRESHES,
    "dataflow": ("weight_stationary", "output_stationary"),
    "systolic_selection": ("earliest", "in_turn"),
    "interconnect": ("simple", "crossbar", "mesh"),
    "dram_placement": POLICIES,
}
_POWER_OF_TWO = "a power of two"
_FORMS: Mapping[str, str] = {
    **dict.fromkeys(("mesh_queues", "mesh_channels"), PLACES_FORM),
    "chiplet_links": LINKS_FORM,
    "page_bytes": _POWER_OF_TWO,
    "systolic_preload_depth": "1 or 2",
    "vector_bits_per_lane": "a multiple of 8",
}
_MAY_BE_EMPTY = {"core_figures", "chiplet_links"}
_LARGEST, _LARGEST_RATE = 2**40, 2**60
_MOST_OF = {
    **dict.fromkeys(("cores", "systolic_arrays", "dma_queues", "dram_channels", "interconnect_ports"), 4096),
    **dict.fromkeys(("mesh_columns", "mesh_rows", "chiplets"), 256),
}
"""The most of each that tables and pictures list one by one, with names and lanes."""
_MAY_BE_ZERO = {
    "launch_overhead_cycles",
    "common_memory_bytes",
    "common_memory_bytes_per_second",
    "common_memory_latency_ns",
    "interconnect_latency_cycles",
    "mesh_hop_cycles",
    "chiplet_link_latency_cycles",
    "dram_latency_ns",
    "host_link_latency_us",
    "cross_lane_step_cycles",
    "transpose_cycles_per_vector",
    "weight_switch_cycles",
    "mac_pj",
    "vector_op_pj",
    "special_op_pj",
    "scratchpad_pj_per_byte",
    "common_memory_pj_per_byte",
    "dram_pj_per_bit",
    "dram_activate_pj",
}


def choices_of(name: str, kind: str) -> tuple[Figure, ...]:
    """All values that a figure can have, where these are few; `kind` as in `check_figure`."""
    return (False, True) if kind == "bool" else _CHOICES.get(name, ())


def range_of(name: str, kind: str) -> str:
    """The values that `check_figure` accepts, in words."""
    if choices := choices_of(name, kind):
        return f"one of {', '.join(map(str, choices))}" if kind == "str" else "true or false"
    if kind == "str" or name in _FORMS:
        return _FORMS.get(name, "a text")
    least = "0" if name in _MAY_BE_ZERO else "1" if kind == "int" else "more than 0"
    if name not in _MOST_OF:  # the largest value is far beyond any machine
        return least if least == "more than 0" else f"{least} or more"
    return f"{least} to {most_of(name):,}"


def most_of(name: str) -> int:
    """The largest value of a figure that is a number."""
    return _MOST_OF.get(name, _LARGEST_RATE if name.endswith("_per_second") else _LARGEST)


def check_figure(told: str, name: str, kind: str, value: object) -> None:
    """Raises for a value that a figure cannot have; `kind` is its type as the record of the machine says it.

    `told` is the machine and the figure, as the user called it.
    """
    where = f"{told} = {value!r}"
    if kind == "str":
        if not isinstance(value, str) or not (value or name in _MAY_BE_EMPTY):
            raise MachineError(f"{where}: expected {_FORMS.get(name, 'a text')}")
        if _FORMS.get(name) == PLACES_FORM:
            check_places(where, value)
        if _FORMS.get(name) == LINKS_FORM:
            check_links(where, value)
        if name in _CHOICES and value not in _CHOICES[name]:
            near = did_you_mean(value, _CHOICES[name])
            raise MachineError(f"{where}{near or ':'} {'E' if near else 'e'}xpected one of {', '.join(_CHOICES[name])}")
        return
    if kind == "bool":
        if not isinstance(value, bool):
            raise MachineError(f"{where}: expected true or false")
        return
    allowed = (int,) if kind == "int" else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed):
        raise MachineError(f"{where}: expected {'a whole number' if kind == 'int' else 'a number'}")
    if name in _MOST_OF and value > _MOST_OF[name]:
        raise MachineError(f"{where}: expected at most {_MOST_OF[name]:,}")
    if value > most_of(name):
        raise MachineError(f"{where}: expected at most {most_of(name):,}, so that sums of many stay exact")
    if _FORMS.get(name) == _POWER_OF_TWO and cast("int", value) & (cast("int", value) - 1):
        raise MachineError(f"{where}: expected {_POWER_OF_TWO}")
    if not math.isfinite(value) or value < 0 or (value == 0 and name not in _MAY_BE_ZERO):
        raise MachineError(f"{where}: expected {'zero or more' if name in _MAY_BE_ZERO else 'more than zero'}")


_MOST_UNITS, _MOST_HOPS = 2**14, 2**20


def check_units(machine: MachineRecord) -> None:
    """Raises for a machine of more units, or of more ways between them, than can be listed."""
    each = machine.dma.queues + machine.array.count + 2
    if machine.core.count * each > _MOST_UNITS:
        raise MachineError(
            f"machine {machine.name!r}: cores = {machine.core.count} with {each} units each (dma_queues, "
            f"systolic_arrays, vector and scalar unit): expected at most {_MOST_UNITS:,} units together"
        )
    ways = machine.core.count * (machine.dma.queues + 1) * machine.dram.channels
    network = machine.network
    hops = network.mesh_columns + network.mesh_rows if network.kind == "mesh" else machine.chiplet.count + 2
    if (network.kind != "simple" or machine.chiplet.count > 1) and ways * hops > _MOST_HOPS:
        raise MachineError(
            f"machine {machine.name!r}: {ways:,} ways from dma_queues of all cores to dram_channels, of up to {hops} "
            f"links each: expected at most {_MOST_HOPS:,} links on all ways together"
        )
