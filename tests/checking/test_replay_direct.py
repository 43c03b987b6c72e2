"""Loops of single accesses, read off hand-written text and replayed in the order of their trace."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from simulator import Launched, load_machine, simulate, verify
from workbench.checking.replay.replay_trace import replay
from workbench.ground.errors import ReplayError
from workbench.ir import ScheduledKernel
from workbench.ir.kernels import Mapping
from workbench.mlir.context import parse
from workbench.scheduling.extraction.extract import extract

Floats = npt.NDArray[np.float32]
MACHINE = load_machine("edge-8x8")

LOOP = """func.func @k(%x: memref<6x5xf32>, %y: memref<6x5xf32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c5 = arith.constant 5 : index
  %c6 = arith.constant 6 : index
  %half = arith.constant 0.5 : f32
  scf.for %i = %c0 to %c6 step %c1 {{
    scf.for %j = %c0 to {last} step %c1 {{
{body}
    }}
  }}
  return
}}"""


def run(body: str, x: Floats, last: str = "%c5") -> Floats:
    text = LOOP.format(body=body, last=last)
    module = parse(text)
    program = extract(module, text, "k", ["node"], MACHINE)
    verify(program)
    trace = simulate([Launched("k", program, (0, 4096))], MACHINE)
    trace.invariants()
    out = np.full((6, 5), 7e7, np.float32)
    kernel = ScheduledKernel("k", text, text, "", Mapping({}, (), 1, {}, ""), {}, (), program, ())
    replay(kernel, [x.ravel(), out.ravel()], trace.start.tolist(), trace.done.tolist())
    return out


@pytest.fixture
def x() -> Floats:
    return np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)


def test_a_loop_computes_what_its_body_says(x: Floats) -> None:
    body = """%a = memref.load %x[%i, %j] : memref<6x5xf32>
      %column = arith.index_cast %j : index to i32
      %number = arith.sitofp %column : i32 to f32
      %b = arith.mulf %a, %half : f32
      %c = arith.addf %b, %number : f32
      memref.store %c, %y[%i, %j] : memref<6x5xf32>"""
    assert np.allclose(run(body, x), x * np.float32(0.5) + np.arange(5, dtype=np.float32))


def test_several_loads_and_stores_keep_their_order(x: Floats) -> None:
    body = """%j1 = arith.addi %j, %c1 : index
      %a = memref.load %x[%i, %j] : memref<6x5xf32>
      memref.store %a, %y[%i, %j] : memref<6x5xf32>
      %b = memref.load %x[%i, %j1] : memref<6x5xf32>
      %c = arith.subf %b, %a : f32
      memref.store %c, %y[%i, %j] : memref<6x5xf32>"""
    assert np.array_equal(run(body, x, "%c4")[:, :4], np.diff(x, axis=1))


def test_a_loop_that_reads_what_it_wrote_says_that_it_cannot_be_replayed(x: Floats) -> None:
    body = """%j1 = arith.addi %j, %c1 : index
      %a = memref.load %y[%i, %j] : memref<6x5xf32>
      memref.store %a, %y[%i, %j1] : memref<6x5xf32>"""
    with pytest.raises(ReplayError, match=r"scf.for at line 9: it reads elements that it wrote before"):
        run(body, x, "%c4")


def test_accesses_that_some_iterations_leave_out_say_so(x: Floats) -> None:
    body = """%a = memref.load %x[%i, %j] : memref<6x5xf32>
      %early = arith.cmpi slt, %j, %c4 : index
      scf.if %early {
        memref.store %a, %y[%i, %j] : memref<6x5xf32>
      }"""
    with pytest.raises(ReplayError, match="leave out an access, which replay cannot execute yet"):
        run(body, x)
