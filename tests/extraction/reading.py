"""Kernels written by hand, as they are read off."""

from __future__ import annotations

from simulator import Machine, load_machine, verify
from simulator.tileprogram.program import TileProgram
from workbench.mlir.context import parse
from workbench.mlir.scheduled_form import verify_scheduled
from workbench.scheduling.extraction.extract import extract


def read(text: str, machine: Machine | None = None) -> TileProgram:
    """The program of the kernel `k`, verified before and after it is extracted."""
    module = parse(text)
    verify_scheduled(text, "k", module.context)
    program = extract(module, text, "k", ["node"], machine or load_machine("edge-8x8"))
    verify(program)
    return program
