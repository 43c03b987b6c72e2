"""The simulator compiled ahead of its first use: what people then simulate waits for no compiler."""

from __future__ import annotations

from tests.fresh_process import python

CODE = """
from simulator.engine.compile_ahead import KINDS, compile_ahead
from simulator import load_machine, simulate
from simulator.analysis.slack import slack_of
from simulator.compiled import when_compiling
from simulator.records.spans import Launched
from tests.simulator.build import Made

ready = list(compile_ahead())
assert sorted(each.memory for each in ready) == sorted(KINDS)
assert all(each.was_there for each in compile_ahead())
made = Made()
made.argument("a", (64, 64))
made.argument("b", (64, 64), written=True)
for name in ("x", "y", "z"):
    made.buffer(name, 64 * 64)
a, b, (x, y, z) = made.dram("a", (64, 64)), made.dram("b", (64, 64)), (made.pad(name, (64, 64)) for name in "xyz")
made.load(a, x)
made.matmul(x, x, y)
made.vector([y], z)
made.store(z, b)
made.direct(made.dram("a", (8,)))
program, compiled = made.build(), []
with when_compiling(compiled.append):
    for name in ("tpu-v4", "edge-8x8"):
        for memory in KINDS:
            slack_of(simulate([Launched("k", program, (0, 16384))] * 2, load_machine(name, memory=memory)))
print(compiled)
"""


def test_programs_and_machines_of_all_kinds_find_it_compiled():
    assert python("-c", CODE).strip() == "[]"
