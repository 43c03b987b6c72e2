"""Runs the engine of transpose_engine.py: prints the results as JSON and draws them into the given folder."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")

from simulator import Launched, load_machine, simulate
from simulator.analysis.critical_path import waterfall_of
from simulator.analysis.energy import energy_of
from simulator.analysis.slack import slack_of
from simulator.analysis.stalls import stalls_of
from simulator.memory import dram, network
from simulator.tileprogram.program import Access, Instruction, Opcode, TileProgram
from simulator.tileprogram.verifier import verify
from tests.simulator.build import Made
from workbench.explaining.views.timelines.gantt_picture import gantt_picture
from workbench.explaining.views.timelines.letters import timeline_text
from workbench.explaining.views.timelines.timeline import gantt_of, stats
from workbench.jupyter import plot_pictures

ROWS, COLUMNS, TILES = 64, 256, 4


def turned(tiles: int = TILES, rows: int = ROWS, columns: int = COLUMNS) -> TileProgram:
    """Tiles come in, are turned, and go back; two slots, so that both engines have something to do."""
    made = Made()
    made.argument("x", (tiles * rows, columns))
    made.argument("out", (tiles * columns, rows), written=True)
    made.buffer("in", rows * columns, 2)
    made.buffer("result", rows * columns, 2)
    for tile in range(tiles):
        at, slot = tile * rows * columns, tile % 2
        source, target = made.pad("in", (rows, columns), slot), made.pad("result", (columns, rows), slot)
        made.load(made.dram("x", (rows, columns), at), source)
        made.move(Opcode["TRANSPOSE"], source, target)
        made.store(target, made.dram("out", (columns, rows), at))
    return made.build()


def beside_banks_and_links() -> list[int]:
    """Places in the network and at the banked memory of a machine with two cores, on the second of which it ran."""
    machine, program = load_machine("tpu-v3", memory="banked", interconnect="mesh", cores=2), turned(2, 8, 32)
    there = tuple(replace(buffer, core=1) for buffer in program.buffers)
    program = replace(program, core=np.ones_like(program.core), buffers=there)
    simulate([Launched("turned", program, (0, 1 << 20))], machine).invariants()
    links, banks = network.network(machine), dram.banked(machine)
    assert links is not None and banks is not None
    return [len(links.hops), len(banks.running)]


def on_dram() -> str:
    """The verifier's error for an engine that reads DRAM."""
    made = Made()
    made.argument("x", (ROWS, COLUMNS))
    made.buffer("result", ROWS * COLUMNS)
    made.add(
        Instruction(
            Opcode["TRANSPOSE"],
            0,
            (),
            (made.dram("x", (ROWS, COLUMNS)), made.pad("result", (COLUMNS, ROWS), access=Access.WRITE)),
            (ROWS, COLUMNS),
        )
    )
    try:
        verify(made.build())
    except Exception as error:
        return str(error)
    return ""


def main() -> None:
    program, machine = turned(), load_machine("tpu-v3")
    verify(program)
    trace = simulate([Launched("turned", program, (0, 1 << 20))], machine)
    trace.invariants()
    plot_pictures.figure([gantt_picture(gantt_of(trace))], style="light").savefig(
        Path(sys.argv[1]) / "timeline.png", dpi=80
    )
    columns = trace.columns()
    told = {
        "rows": list(zip(*(columns[name] for name in ("kind", "unit", "start", "end")), strict=True)),
        "cycles": trace.makespan,
        "stalls": stalls_of(trace),
        "energy": [[each.unit, each.kind, each.count, each.pj_each] for each in energy_of(trace)],
        "path": waterfall_of(trace),
        "slack": slack_of(trace).tolist(),
        "stats": stats(trace),
        "text": timeline_text(gantt_of(trace)),
        "on_dram": on_dram(),
        "beside_banks": beside_banks_and_links(),
        "figures": {"lanes": machine.vector.lanes, "each": machine.vector.transpose_cycles_per_vector},
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
