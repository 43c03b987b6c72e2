"""The file of a trace: its spans and its machine, not its programs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import numpy as np

from simulator.errors import FileFormatError, MachineError
from simulator.files import typed_records, versioned_files
from simulator.machine.dram_file import Memory, check_memory, is_file
from simulator.machine.machine import Machine, machine_from
from simulator.machine.provenance import Provenance
from simulator.machine.topology import topology
from simulator.records.spans import CAUSES, CHANNEL_COUNTERS, CHANNEL_CYCLES, TOTALS, WAITS
from simulator.units.unit_table import asking

FORMAT, VERSION = "aten-workbench/trace", 1

_Pairs = tuple[tuple[str, str], ...]

_COLUMNS: dict[str, type] = {
    "launch": np.int32,
    "instr": np.int32,
    "core": np.int32,
    "unit": np.int32,
    "kind": np.uint8,
    "start": np.int64,
    "end": np.int64,
    "done": np.int64,
    "phase": np.int64,
    "issue": np.int64,
    "bytes": np.int64,
    "requested": np.int64,
    "cause": np.uint8,
    "blocker": np.int32,
    "issue_cause": np.uint8,
    "issue_blocker": np.int32,
    "via": np.uint8,
    "assumed": np.bool_,
}
ARRAYS = (
    *("begins", *_COLUMNS, "waits", "met", "origin_start", "origin", "totals"),
    *("channels", "channel_cycles", "channel_bytes", "channel_times", "link_bytes"),
)


@dataclass(frozen=True, slots=True)
class Found:
    """The contents of a file."""

    machine: Machine
    kernels: tuple[str, ...]
    unit_names: tuple[str, ...]
    arrays: dict[str, Any]


def write_trace(
    path: str | os.PathLike[str],
    machine: Machine,
    kernels: tuple[str, ...],
    units: tuple[str, ...],
    arrays: Mapping[str, versioned_files.Array],
) -> None:
    """Writes a trace's file."""
    versioned_files.write(path, FORMAT, VERSION, _header(machine, kernels, units), arrays)


def pack_trace(
    machine: Machine, kernels: tuple[str, ...], units: tuple[str, ...], arrays: Mapping[str, versioned_files.Array]
) -> bytes:
    """The contents of a trace's file."""
    return versioned_files.pack(FORMAT, VERSION, _header(machine, kernels, units), arrays)


def _header(machine: Machine, kernels: tuple[str, ...], units: tuple[str, ...]) -> versioned_files.Json:
    return {
        "machine": {
            "figures": machine.figures(),
            "assumed": machine.assumed,
            "fitted": machine.fitted,
            "sources": machine.sources,
            "memory": dataclasses.asdict(machine.own_memory) if machine.own_memory else None,
        },
        "kernels": kernels,
        "units": units,
    }


def _provenance(told: dict[str, Any]) -> Provenance:
    """The provenance of a header's machine."""
    return Provenance(
        typed_records.value(tuple[str, ...], told["assumed"], "assumed"),
        typed_records.value(_Pairs, told["fitted"], "fitted"),
        typed_records.value(_Pairs, told["sources"], "sources"),
    )


def _machine(told: dict[str, Any]) -> Machine:
    """The machine of a header. Raises unless the header holds the memory exactly where `dram_timing` names a file."""
    memory = cast("Memory | None", typed_records.value(Memory | None, told["memory"], "memory"))
    if memory:
        check_memory(memory)
    machine = machine_from(told["figures"], _provenance(told), memory=memory)
    timing = machine.dram.timing
    if memory and not is_file(timing):
        raise ValueError(f"there is a memory, and dram_timing is {timing!r:.60}, which is no file")
    if not memory and is_file(timing):
        raise ValueError(f"dram_timing is the file {timing!r:.60}, and there is no memory")
    return machine


def read_trace(path: str | os.PathLike[str] | BinaryIO) -> Found:
    """Reads a file of `write_trace`; `FileFormatError` for anything else."""
    header, arrays = versioned_files.read(path, FORMAT, VERSION)
    try:
        machine = _machine(cast("dict[str, Any]", header["machine"]))
        kernels = typed_records.value(tuple[str, ...], header["kernels"], "kernels")
        units = typed_records.value(tuple[str, ...], header["units"], "units")
    except (KeyError, TypeError, ValueError, OverflowError, MachineError) as error:
        raise FileFormatError(f"{path}: the header is not that of a trace: {error}") from None
    rows = len(arrays.get("start", ()))
    wanted: dict[str, versioned_files.Layout] = {name: (kind, (rows,)) for name, kind in _COLUMNS.items()}
    wanted["begins"] = (np.int64, (len(kernels),))
    wanted["met"] = (np.int64, (rows, CAUSES))
    wanted["origin_start"] = (np.int64, (rows + 1,))
    wanted["origin"] = (np.int32, (None,))
    wanted["totals"] = (np.int64, (len(kernels), len(TOTALS)))
    wanted["channels"] = (np.int64, (None, len(CHANNEL_COUNTERS)))
    wanted["waits"] = (np.int32, (None, WAITS))
    wanted["channel_cycles"] = (np.int64, (None, len(CHANNEL_CYCLES)))
    wanted["channel_bytes"] = (np.int64, (None, None))
    wanted["link_bytes"] = (np.int64, (len(topology(machine, asking(machine)).links) if machine.has_links else 0,))
    wanted["channel_times"] = (np.int64, (None,))
    versioned_files.expect(path, arrays, wanted)
    for name, limit in (("waits", rows), ("channel_cycles", len(arrays["channels"]))):
        if len(arrays[name]) not in (0, limit):
            raise FileFormatError(f"{path}: {name} has {len(arrays[name])} rows, not {limit}")
    if arrays["channel_bytes"].shape != (len(arrays["channels"]), len(arrays["channel_times"]) - 1):
        raise FileFormatError(f"{path}: channel_bytes is not a row per channel and a column per piece of time")
    versioned_files.expect_starts(path, "origin_start", arrays["origin_start"], len(arrays["origin"]))
    return Found(machine, kernels, units, dict(arrays))
