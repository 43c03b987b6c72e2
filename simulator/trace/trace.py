"""The trace: the record of when every instruction ran, and the analyses of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.audit import invariants, trace_columns
from simulator.errors import FileFormatError, InvariantViolation
from simulator.files import versioned_files
from simulator.machine.machine import Machine
from simulator.optional.feature_table import FeatureArguments
from simulator.records.spans import (
    CAUSES,
    HOST_UNIT,
    TOTALS,
    WAITS,
    Cause,
    HostCall,
    Launched,
    SpanTable,
    Statistics,
    Via,
)
from simulator.tileprogram.program import I32, I64, Opcode, TileProgram
from simulator.trace import trace_file
from simulator.trace_record import TraceRecord
from simulator.units import scalar, vector
from simulator.units.cost_table import TracedWork, pieces
from simulator.units.unit_table import unit_names


class Trace(TraceRecord):
    """The record of a run, with its invariants and its file; its analyses are functions in simulator/analysis."""

    def columns(self) -> dict[str, list[int] | list[str] | list[tuple[int, ...]]]:
        """The spans as a table: column name -> one value per span."""
        starts = self.origin_start.tolist()
        origin = self.origin.tolist()
        return {
            "launch": self.launch.tolist(),
            "kernel": [self.kernels[index] for index in self.launch.tolist()],
            "instr": self.instr.tolist(),
            "core": self.core.tolist(),
            "unit": [self.unit_names[index] for index in self.unit.tolist()],
            "kind": [_KINDS[index] for index in self.kind.tolist()],
            "start": self.start.tolist(),
            "end": self.end.tolist(),
            "bytes": self.bytes.tolist(),
            "cause": [_CAUSE_LABELS[index] for index in self.cause.tolist()],
            "blocker": self.blocker.tolist(),
            "via": [_VIA_LABELS[index] for index in self.via.tolist()],
            "origins": [tuple(origin[starts[i] : starts[i + 1]]) for i in range(len(self))],
        }

    def invariants(self) -> None:
        """Raises `InvariantViolation` if the trace contradicts its programs or machine: `invariants.violations`."""
        found = invariants.violations(self)
        if found:
            raise InvariantViolation(found)

    def digest(self) -> str:
        """A hash of every span: equal for equal traces, in any process."""
        sha = hashlib.sha256(repr((self.machine.figures(), self.kernels, self.unit_names)).encode())
        if self.machine.own_memory:
            sha.update(repr(self.machine.own_memory).encode())
        for name in trace_file.DTYPES:
            array = getattr(self, name)
            sha.update(f"{name} {array.dtype.str} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        return sha.hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the spans, without the programs, as a versioned npz."""
        versioned_files.replace_file(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """The bytes that `save` writes; `load(io.BytesIO(...))` reads them."""
        return trace_file.pack(self)

    @staticmethod
    def load(path: str | os.PathLike[str] | BinaryIO) -> Trace:
        """The trace that `save` wrote; `FileFormatError` for anything else."""
        trace = Trace(**trace_file.read(path))
        host = (HOST_UNIT,) if trace.unit_names[-1:] == (HOST_UNIT,) else ()
        wrong = trace_columns.violations(trace, unit_names(trace.machine) + host)
        if wrong:
            raise FileFormatError(f"{path}: it is no trace of this machine: {'; '.join(wrong[:3])}")
        return trace


_KINDS = [opcode.name for opcode in Opcode]
_CAUSE_LABELS = [cause.label for cause in Cause]
_VIA_LABELS = [via.label for via in Via]


class Ran(NamedTuple):
    """One simulated launch: its work, its spans, when their constraints were met, and the waits inside each span."""

    work: TracedWork
    spans: SpanTable
    met: I64
    waits: I32


def assemble(
    launches: Sequence[Launched | HostCall],
    machine: Machine,
    ran: Sequence[Ran],
    begins: Sequence[int],
    channels: Statistics,
    links: I64,
    asked: FeatureArguments,
) -> Trace:
    """Joins the engine's tables of each launch to one trace."""
    works, spans = [each.work for each in ran], [each.spans for each in ran]
    programs = [launched.program for launched in launches]
    lengths = [len(program) for program in programs]
    has_host = any(isinstance(launched, HostCall) for launched in launches)
    origin_counts = [np.zeros(0, np.int64), *(np.diff(program.origin_start) for program in programs)]
    columns: dict[str, list[npt.NDArray[Any]]] = {
        **{name: [getattr(each, name) for each in spans] for name in SpanTable._fields},
        **{name: [getattr(work, name) for work in works] for name in ("requested", "via", "assumed")},
        "instr": [np.arange(length) for length in lengths],
        "core": [program.core for program in programs],
        "kind": [program.opcode for program in programs],
        "origin": [program.origin for program in programs],
        "bytes": [work.moved for work in works],
        "waits": [each.waits for each in ran],
        "met": [each.met for each in ran],
    }
    widths = {"waits": (WAITS,), "met": (CAUSES,)}
    return Trace(
        machine=machine,
        kernels=tuple(launched.kernel for launched in launches),
        unit_names=unit_names(machine) + ((HOST_UNIT,) if has_host else ()),
        begins=np.array(begins, np.int64),
        launch=np.repeat(np.arange(len(launches), dtype=np.int32), lengths),
        **{name: _joined(each, trace_file.DTYPES[name], *widths.get(name, ())) for name, each in columns.items()},
        origin_start=np.concatenate([[0], np.cumsum(np.concatenate(origin_counts))]).astype(np.int64),
        totals=np.array([*map(_totals, programs, works)], np.int64).reshape(-1, len(TOTALS)),
        **channels._asdict(),
        link_bytes=links,
        launches=tuple(launches),
        asked={keyword: tuple(values) for keyword, values in asked.items()},
    )


def _joined(parts: Sequence[npt.NDArray[Any]], dtype: type[np.generic], *width: int) -> npt.NDArray[Any]:
    """Joins arrays; a single one is returned uncopied, since a trace may be the largest object in memory."""
    if len(parts) == 1:
        return parts[0].astype(dtype, copy=False)
    return np.concatenate([np.zeros((0, *width), dtype), *parts]).astype(dtype, copy=False)


def _totals(program: TileProgram, work: TracedWork) -> tuple[int, ...]:
    moved, opcode = work.moved, program.opcode
    macs = program.extent[(opcode == Opcode.MATMUL) & (work.via != Via.SKIPPED)].prod(1).sum()
    done = np.zeros(2, np.int64)
    for _, part in pieces(program):
        done += vector.operations(part)[part.opcode == Opcode.VECTOR].sum(0) + scalar.operations(part).sum(0)
    return (
        work.read,
        work.written,
        int(work.requested.sum()),
        work.remote,
        work.second_read,
        work.second_written,
        int(moved[opcode == Opcode.COPY].sum()),
        int(macs),
        int(done[0]),
        int(done[1]),
    )
