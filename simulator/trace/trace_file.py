"""Writes and reads the file of a trace: it has the spans and the machine, but not the programs."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, BinaryIO, Final, cast

from simulator.errors import FileFormatError, MachineError
from simulator.files import typed_records, versioned_files
from simulator.machine.dram_file import Memory, check_memory, is_file
from simulator.machine.machine import Machine, machine_from
from simulator.machine.provenance import KINDS, Provenance
from simulator.machine.topology import topology
from simulator.records.spans import CAUSES, CHANNEL_COUNTERS, CHANNEL_CYCLES, TOTALS, WAITS
from simulator.trace_record import TraceRecord
from simulator.units.unit_table import asking

FORMAT, VERSION = "aten-workbench/trace", 1

DTYPES: Final = versioned_files.dtypes_of(TraceRecord)
"""The element type of each array of a trace, in the order of the record."""


def pack(trace: TraceRecord) -> bytes:
    """The contents of a trace's file."""
    machine = trace.machine
    header = {
        "machine": {
            "figures": machine.figures(),
            **{kind: getattr(machine, kind) for kind in KINDS},
            "memory": dataclasses.asdict(machine.own_memory) if machine.own_memory else None,
        },
        "kernels": trace.kernels,
        "units": trace.unit_names,
    }
    return versioned_files.pack(FORMAT, VERSION, header, {name: getattr(trace, name) for name in DTYPES})


def _machine(told: dict[str, Any]) -> Machine:
    """The machine that a header describes. Raises unless a memory is there exactly if `dram_timing` names a file."""
    memory = cast("Memory | None", typed_records.value(Memory | None, told["memory"], "memory"))
    if memory:
        check_memory(memory)
    provenance = typed_records.record(Provenance, {kind: told[kind] for kind in KINDS})
    machine = machine_from(told["figures"], provenance, memory=memory)
    timing = machine.dram.timing
    if memory and not is_file(timing):
        raise ValueError(f"there is a memory, and dram_timing is {timing!r:.60}, which is no file")
    if not memory and is_file(timing):
        raise ValueError(f"dram_timing is the file {timing!r:.60}, and there is no memory")
    return machine


def read(path: str | os.PathLike[str] | BinaryIO) -> dict[str, Any]:
    """The fields of the trace in a file that `pack` made; raises `FileFormatError` for any other file."""
    header, arrays = versioned_files.read(path, FORMAT, VERSION)
    try:
        machine = _machine(cast("dict[str, Any]", header["machine"]))
        kernels = typed_records.value(tuple[str, ...], header["kernels"], "kernels")
        units = typed_records.value(tuple[str, ...], header["units"], "units")
    except (KeyError, TypeError, ValueError, OverflowError, MachineError) as error:
        raise FileFormatError(f"{path}: the header is not that of a trace: {error}") from None
    rows = len(arrays.get("start", ()))
    extents: dict[str, tuple[int | None, ...]] = {
        "begins": (len(kernels),),
        "waits": (None, WAITS),
        "met": (rows, CAUSES),
        "origin_start": (rows + 1,),
        "origin": (None,),
        "totals": (len(kernels), len(TOTALS)),
        "channels": (None, len(CHANNEL_COUNTERS)),
        "channel_cycles": (None, len(CHANNEL_CYCLES)),
        "channel_bytes": (None, None),
        "channel_times": (None,),
        "link_bytes": (len(topology(machine, asking(machine)).links) if machine.has_links else 0,),
    }
    versioned_files.expect(path, arrays, {name: (kind, extents.get(name, (rows,))) for name, kind in DTYPES.items()})
    for name, limit in (("waits", rows), ("channel_cycles", len(arrays["channels"]))):
        if len(arrays[name]) not in (0, limit):
            raise FileFormatError(f"{path}: {name} has {len(arrays[name])} rows, not {limit}")
    if arrays["channel_bytes"].shape != (len(arrays["channels"]), len(arrays["channel_times"]) - 1):
        raise FileFormatError(f"{path}: channel_bytes is not a row per channel and a column per piece of time")
    versioned_files.expect_starts(path, "origin_start", arrays["origin_start"], len(arrays["origin"]))
    return {"machine": machine, "kernels": kernels, "unit_names": units, **arrays}
