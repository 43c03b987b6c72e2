"""Compiles the simulator before anybody waits for it.

The first use of the simulator compiles it, once for each kind of memory, since banked memory needs other code. A small
run on each kind leaves the machine code in the cache (see compiled.py); if the code is there already, the run ends at
once. An empty cache is filled by one process per kind, side by side. Machines with networks or several buses need other
code, which they compile at their first use.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from simulator.analysis.slack import slack_of
from simulator.compiled import cache_folder, when_compiling
from simulator.engine.engine import simulate
from simulator.machine.machine_file import load_machine
from simulator.records.spans import Launched
from simulator.tileprogram.opcodes import Access, Opcode, Space
from simulator.tileprogram.program import Argument, Buffer, Instruction, Operand, OpInfo, TileProgram
from simulator.tileprogram.program_builder import ProgramBuilder

KINDS = ("simple", "banked")


@dataclass(frozen=True, slots=True)
class Ready:
    """A kind of memory whose simulator is compiled."""

    memory: str
    was_there: bool
    """True if nothing had to be compiled."""
    seconds: float


def compile_ahead() -> Iterator[Ready]:
    """Compiles the simulator for each kind of memory; yields each kind when its code is there."""
    processes = min(len(KINDS), os.cpu_count() or 1)
    if processes == 1 or any(cache_folder().rglob("*.nbi")):  # reading the cache takes less than starting a process
        yield from map(_ready, KINDS)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for made in as_completed([pool.submit(_ready, memory) for memory in KINDS]):
            yield made.result()


def _ready(memory: str) -> Ready:
    """Compiles the simulator for a kind of memory by a small run, which it times."""
    program = _a_load()
    compiled: list[bool] = []
    began = time.perf_counter()
    with when_compiling(compiled.append):
        slack_of(simulate([Launched(program.kernel, program, (0,))], load_machine("tpu-v3", memory=memory)))
    return Ready(memory, not compiled, time.perf_counter() - began)


def _a_load() -> TileProgram:
    """A small program: it loads one tile of 32 elements."""
    made = ProgramBuilder("ahead", ops=[OpInfo("load", 1, ())])
    made.arguments.append(Argument("x", (32,), (1,), 0, 4, False))
    made.buffers.append(Buffer("tile", 128, 1, 0, 4))
    source = Operand(Space.DRAM, 0, 0, 0, (32,), (1,), 4, Access.READ)
    target = Operand(Space.SCRATCHPAD, 0, 0, 0, (32,), (1,), 4, Access.WRITE)
    made.add(Instruction(Opcode.LOAD, 0, (), (source, target), (32,)))
    return made.build()
