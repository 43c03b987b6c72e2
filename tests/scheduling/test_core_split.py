"""Kernels spread over cores: numbers, shares, what each core loads, and what is said where it is not done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import workbench as wb
from simulator.machine.machine_file import load_machine
from simulator.tileprogram.program import Opcode, TileProgram
from simulator.tileprogram.verifier import verify
from tests.flow import Flow, capture, count, moved
from tests.replaying import replayed
from tests.simulated_records import simulate
from workbench.explaining.views.kernel_lists import kernel_tables
from workbench.explaining.views.pages import stage_html
from workbench.ground.errors import MappingError, ScheduledFormError
from workbench.lowering.lower import lower
from workbench.mlir.scheduled_form import verify_scheduled
from workbench.rendering.render import render
from workbench.running.jit import compile_scheduled
from workbench.scheduling.schedule import schedule


def spread(
    function: Callable[..., Any],
    inputs: Sequence[torch.Tensor],
    cores: int,
    name: str = "edge-8x8",
    mapping: dict[str, Any] | None = None,
) -> Flow:
    captured = capture(function, inputs, mode="dynamo")
    lowered = lower(captured.graph)
    rendered = render(lowered)
    machine = load_machine(name, cores=cores)
    scheduled = schedule(lowered, rendered, machine, {"*": mapping} if mapping else None)
    return Flow(function, captured, lowered, rendered, machine, scheduled)


def program_of(made: Flow) -> TileProgram:
    (kernel,) = made.scheduled.kernels
    return kernel.program


def assert_all_holds(made: Flow, inputs: Sequence[torch.Tensor]) -> None:
    """The numbers of native code, the program's order, the trace's invariants, and the numbers in the trace's order."""
    made.assert_matches_eager(*inputs)
    for kernel in made.scheduled.kernels:
        verify(kernel.program)
    trace = simulate(made.lowered, made.scheduled, made.machine)
    trace.invariants()
    with torch.no_grad():
        expected = made.function(*inputs)
    (ours,) = replayed(made, trace, made.captured.values(inputs))
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def bias_gelu(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.gelu(a @ b + bias)


CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "softmax": (softmax, [(37, 50)]),
    "softmax of rows that do not fit": (softmax, [(3, 70_000)]),
    "matmul, bias, gelu": (bias_gelu, [(45, 61), (61, 56), (56,)]),
    "convolution": (lambda x, w: torch.relu(F.conv2d(x, w, padding=1, stride=2)), [(2, 3, 17, 19), (20, 3, 3, 3)]),
    "pool": (lambda x: F.max_pool2d(x, 3, 2, 1), [(2, 5, 15, 13)]),
    "broadcast": (lambda x, row, column: x + row + column, [(33, 20), (20,), (33, 1)]),
    "transpose": (lambda x: x.t().contiguous(), [(40, 24)]),
    "sum of all": (lambda x: x.sum(), [(30, 20)]),
    "single row": (lambda x: x * 2, [(1, 300)]),
}


@pytest.mark.test_all(but=3)
@pytest.mark.sweep
@pytest.mark.parametrize("cores", [2, 3, 16])
@pytest.mark.parametrize("case", CASES)
def test_any_kernel_may_be_spread_over_any_cores(case: str, cores: int):
    function, shapes = CASES[case]
    inputs = [torch.randn(shape) for shape in shapes]
    made = spread(function, inputs, cores)
    assert_all_holds(made, inputs)


WHOLE: dict[str, Callable[..., Any]] = {
    "a scaled weight": lambda x, w, v: x @ (w * 0.5),
    "two weights of one kernel": lambda x, w, v: (x @ (w * 0.5)) + (x @ torch.tanh(v)),
    "rows": lambda x, w, v: torch.softmax(x @ (w * 0.5), -1),
}


@pytest.mark.test_all(but=4)
@pytest.mark.parametrize("what", WHOLE)
@pytest.mark.parametrize("tile", [{}, {"m": 20}, {"k": 9}, {"m": 20, "k": 9}])
def test_each_core_makes_an_operand_that_all_read_whole(what: str, tile: dict[str, int]):
    inputs = [torch.randn(70, 17), torch.randn(17, 33), torch.randn(17, 33)]
    made = spread(WHOLE[what], inputs, 2, mapping={"cores": {"m": 2}, "tile": tile})
    assert set(program_of(made).core.tolist()) == {0, 1}
    assert_all_holds(made, inputs)


def test_gathers_and_scatters_are_spread_too():
    table, index = torch.randn(50, 24), torch.randint(0, 50, (37,))
    made = spread(lambda t, i: F.embedding(i, t) * 2, [table, index], 4, mapping={"cores": {"d0": 4}})
    assert set(program_of(made).core.tolist()) == {0, 1, 2, 3}
    assert_all_holds(made, [table, index])


def test_uneven_shares_leave_the_last_core_less():
    made = spread(lambda x: torch.exp(x), [torch.randn(10, 512)], 4)
    (kernel,) = made.scheduled.kernels
    assert kernel.mapping.cores == {"d0": 2, "d1": 2}  # 1,280 points each, where four times three rows would be 1,536
    made = spread(lambda x: torch.exp(x), [torch.randn(10, 64)], 4, mapping={"cores": {"d0": 4}})
    program, rows = program_of(made), dict[int, int]()
    for row in range(len(program)):
        instruction = program.instruction(row)
        if instruction.opcode == Opcode.LOAD:
            rows[instruction.core] = rows.get(instruction.core, 0) + instruction.operands[0].shape[0]
    assert rows == {0: 3, 1: 3, 2: 3, 3: 1}


def test_a_share_that_would_be_empty_is_none():
    made = spread(softmax, [torch.randn(5, 33)], 4, mapping={"cores": {"d0": 4}})
    (kernel,) = made.scheduled.kernels
    assert kernel.mapping.cores == {"d0": 3}  # shares of two rows
    assert set(kernel.program.core.tolist()) == {0, 1, 2}
    assert program_of(made).extent[program_of(made).opcode == Opcode.BARRIER, 0].tolist() == [3, 3, 3]


def test_each_core_loads_what_it_needs_and_stores_its_share():
    size = 64 * 64 * 4
    inputs = [torch.randn(64, 64), torch.randn(64, 64)]
    for cores, bytes_of_a, bytes_of_b in (({"m": 4}, size, 4 * size), ({"m": 2, "n": 2}, 2 * size, 2 * size)):
        made = spread(torch.matmul, inputs, 4, mapping={"cores": cores, "tile": {"m": 64, "n": 64, "k": 64}})
        traffic = moved(program_of(made))
        assert (traffic["arg0"], traffic["arg1"], traffic["arg2!"]) == (bytes_of_a, bytes_of_b, size)
        assert made.scheduled.kernels[0].mapping.tile == {dim: 64 // cores.get(dim, 1) for dim in "mnk"}
        made.assert_matches_eager(*inputs)


def test_a_kernel_on_one_core_has_no_barrier_and_one_on_two_meets_once():
    x = [torch.randn(64, 64)]
    assert count(program_of(spread(softmax, x, 1)), Opcode.BARRIER) == 0
    program = program_of(spread(softmax, x, 2))
    assert np.flatnonzero(program.opcode == Opcode.BARRIER).tolist() == [len(program) - 2, len(program) - 1]
    assert program.core[-2:].tolist() == [0, 1]
    assert all(buffer.core in (0, 1) for buffer in program.buffers)


@pytest.mark.parametrize(
    ("function", "shapes", "reason"),
    [
        (torch.sum, [(30, 20)], "on one core of 4, since no dim of it is parallel"),
        (softmax, [(3, 2000)], "d0 over 3 cores of 4, since it has no more parts"),
        (softmax, [(64, 200)], "d0 over 4 cores"),
        (softmax, [(33, 200)], "d0 over 3 cores of 4, since more would not be faster"),
        (softmax, [(3, 4)], "on one core of 4, since more would not be faster"),
        (torch.matmul, [(2, 64), (64, 512)], "n over 4 cores"),
        (torch.matmul, [(8, 512), (512, 8)], "on one core of 4, since more would not be faster"),
    ],
)
def test_what_the_cores_do_has_a_reason(function: Callable[..., Any], shapes: list[tuple[int, ...]], reason: str):
    program = spread(function, [torch.randn(shape) for shape in shapes], 4).scheduled
    assert program.kernels[0].mapping.spread == reason
    assert f"\n//   cores: {reason}\n" in kernel_tables.scheduled_text(program)
    page = stage_html.scheduled(program)
    assert f"<br>cores: {reason}<br>" in page and f" passes; {reason}</span>" in page
    assert kernel_tables.scheduled_table(program).pick("cores").rows == ((reason,),)


def test_what_was_asked_of_the_cores_has_no_other_reason():
    four = wb.machine("tpu-v3", cores=4)
    j = wb.trace(softmax, torch.randn(64, 64), machine=four, mapping={"*": {"cores": {"d0": 2}}})
    assert j.scheduled.kernels[0].mapping.spread == "d0 over 2 cores of 4, as given"
    script = j.scheduled.kernels[0].schedule
    by_script = j.with_(mapping=None, schedule={j.scheduled.kernels[0].name: script})
    assert by_script.scheduled.kernels[0].mapping.spread == "on 2 cores of 4, as the script has it"
    template = wb.trace(lambda x: torch.cumsum(x, 1), torch.randn(8, 40), machine=four)
    assert template.scheduled.kernels[0].mapping.spread == "on one core of 4, as the template has it"


def test_one_core_is_as_if_there_were_no_cores():
    (kernel,) = spread(softmax, [torch.randn(37, 50)], 1).scheduled.kernels
    assert (kernel.mapping.cores, "core" in kernel.mapping.reason, "forall" in kernel.mlir) == ({}, False, False)
    assert kernel.mapping.spread == "" and "cores" not in kernel_tables.scheduled_kernel_text(kernel)


@pytest.mark.test_all
def test_a_journey_on_two_cores():
    """The numbers, the timeline and the tables of a block of ResNet-18 and of a softmax."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2 = (nn.Conv2d(16, 16, 3, padding=1, bias=False) for _ in range(2))
            self.bn1, self.bn2 = nn.BatchNorm2d(16), nn.BatchNorm2d(16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))) + x)

    machine = wb.machine("tpu-v3", cores=2)
    for model, x in ((Block().eval(), torch.randn(1, 16, 28, 28)), (softmax, torch.randn(512, 512))):
        journey = wb.trace(model, x, machine=machine)
        assert journey.check().ok
        events = journey.simulated.events
        assert set(events.core) == {0, 1}
        assert {unit.split(".")[0] for unit in events.unit} == {"core0", "core1"}
        assert set(journey.simulated.stalls["total"]) == {journey.simulated.cycles}
        assert "core1.vpu" in journey.simulated.text()
    assert "BARRIER" in set(events.kind)
    assert journey.scheduled.kernels[0].mapping.cores == {"d0": 2}


# -- text written by hand ---------------------------------------------------------------------------------------------

TILES = """
func.func @k(%x: memref<10x8xf32>, %out: memref<10x8xf32>) {
  scf.forall (%i) in (5) {
    %t = memref.alloc() : memref<2x8xf32, 1>
    %row = affine.apply affine_map<(d0) -> (d0 * 2)>(%i)
    %from = memref.subview %x[%row, 0] [2, 8] [1, 1] : memref<10x8xf32> to memref<2x8xf32, strided<[8, 1], offset: ?>>
    %to = memref.subview %out[%row, 0] [2, 8] [1, 1] : memref<10x8xf32> to memref<2x8xf32, strided<[8, 1], offset: ?>>
    linalg.copy ins(%from : memref<2x8xf32, strided<[8, 1], offset: ?>>) outs(%t : memref<2x8xf32, 1>)
    linalg.exp ins(%t : memref<2x8xf32, 1>) outs(%t : memref<2x8xf32, 1>)
    linalg.copy ins(%t : memref<2x8xf32, 1>) outs(%to : memref<2x8xf32, strided<[8, 1], offset: ?>>)
  }
  return
}
"""


def test_shares_lie_apart_in_memory():
    """The dim that lies outermost is split, whatever the order of the axes: shares of the others would lie in the same
    blocks."""
    machine = wb.machine("edge-8x8", cores=2, dram_tile="8x128")
    j = wb.trace(torch.add, torch.randn(40, 8, 24), torch.randn(40, 8, 24), machine=machine)
    assert [order.axes for order in j.lowered.record.layouts] == [(2, 1, 0)] * 3
    assert j.scheduled.record.kernels[0].mapping.cores == {"d2": 2}
    assert j.with_(layout="given").scheduled.record.kernels[0].mapping.cores == {"d0": 2}


def test_iterations_are_dealt_to_the_cores_there_are():
    from workbench.mlir.context import parse
    from workbench.scheduling.extraction.extract import extract

    verify_scheduled(TILES)
    for cores, dealt in ((1, [0] * 5), (2, [0, 1, 0, 1, 0]), (8, [0, 1, 2, 3, 4])):
        program = extract(parse(TILES), TILES, "k", ["node"], load_machine("edge-8x8", cores=cores))
        verify(program)
        assert program.core[program.opcode == Opcode.VECTOR].tolist() == dealt
        assert len(program.buffers) == len(set(dealt))  # a core that comes round uses its buffer again
        assert count(program, Opcode.BARRIER) == (len(set(dealt)) if cores > 1 else 0)
    x, out = torch.randn(10, 8), torch.empty(10, 8)
    compile_scheduled(TILES, "k")([x, out])
    torch.testing.assert_close(out, torch.exp(x))


def test_work_before_and_after_what_is_spread_meets_it():
    """Twice the loop, in between and before it something that one core does alone."""
    from workbench.mlir.context import parse
    from workbench.scheduling.extraction.extract import extract

    lines = TILES.strip().splitlines()
    body, alone = lines[1:-2], ["  %a = memref.alloc() : memref<10x8xf32, 1>"]
    alone += ["  linalg.copy ins(%x : memref<10x8xf32>) outs(%a : memref<10x8xf32, 1>)"]
    back = ["  linalg.copy ins(%a : memref<10x8xf32, 1>) outs(%out : memref<10x8xf32>)"]
    again = [line.replace("%", "%z_").replace("%z_x", "%x").replace("%z_out", "%out") for line in body]
    text = "\n".join([lines[0], *alone, *body, *again, *back, *lines[-2:]])
    program = extract(parse(text), text, "k", ["node"], load_machine("edge-8x8", cores=2))
    verify(program)
    names = [program.ops[op].name for op in program.op[program.opcode == Opcode.BARRIER]]
    assert names == ["scf.forall fork"] * 2 + ["scf.forall join"] * 4  # the second begins where the first has met


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("(%i) in (5)", "(%i) in (%n)"), "scf.forall with computed bounds"),
        (("    %t = memref.alloc() : memref<2x8xf32, 1>\n", ""), "every core has a scratchpad of its own"),
        (("    linalg.exp", "    scf.forall (%j) in (2) {\n    }\n    linalg.exp"), "scf.forall inside scf.forall"),
    ],
)
def test_what_cores_cannot_do_is_no_scheduled_form(change: tuple[str, str], message: str):
    before = "  %n = arith.constant 5 : index\n"
    before += "" if "memref.alloc" in TILES.replace(*change) else "    %t = memref.alloc() : memref<2x8xf32, 1>\n"
    text = TILES.replace(*change).replace("  scf.forall (%i)", before + "  scf.forall (%i)")
    with pytest.raises(ScheduledFormError, match=message):
        verify_scheduled(text)


def test_a_template_says_itself_what_cores_do():
    with pytest.raises(MappingError, match=r"a template divides its work over the cores itself, with scf\.forall"):
        _ = wb.trace(
            lambda x: torch.cumsum(x, 1),
            torch.randn(8, 40),
            machine=wb.machine("tpu-v3", cores=2),
            mapping={"*": {"cores": {"d0": 2}}},
        ).scheduled


def test_what_one_core_does_goes_to_the_fastest():
    """On cores of which the first is the slowest, and never slower than without the slow one."""
    slow, fast = {"clock_ratio": 0.25}, {"clock_ratio": 2}
    x = torch.randn(256, 256), torch.randn(256, 256) / 16
    took = {
        name: wb.trace(torch.matmul, *x, machine=wb.machine("tpu-v3", cores=cores))
        for name, cores in {"alone": [{}], "beside": [{}, slow], "behind": [slow, fast]}.items()
    }
    assert all(j.check().ok for j in took.values())
    cycles = {name: j.simulated.cycles for name, j in took.items()}
    assert cycles["behind"] < cycles["beside"] <= cycles["alone"]
    assert set(took["behind"].scheduled.kernels[0].program.core.tolist()) == {1}


@pytest.mark.parametrize("cores", [3, 5, 7])
def test_more_cores_are_no_slower_than_fewer(cores: int):
    x = torch.randn(512, 512), torch.randn(512, 512) / 23
    few, many = (wb.trace(torch.matmul, *x, machine=wb.machine("tpu-v3", cores=number)) for number in (2, cores))
    assert many.simulated.cycles <= few.simulated.cycles


@pytest.mark.parametrize("shape", [(24, 8192), (100, 4096), (1000, 512)])
@pytest.mark.parametrize("figures", [{"cores": 2}, {"cores": 2, "dram_tile": "16x64"}])
def test_shares_that_begin_inside_blocks_are_not_taken_where_one_core_is_faster(
    shape: tuple[int, int], figures: dict[str, Any]
) -> None:
    """Half of 24 rows begins in the middle of a block of 8, which both cores then move."""
    chosen = wb.trace(lambda x: torch.softmax(x, 1), torch.randn(shape), machine=wb.machine("tpu-v3", **figures))
    alone = chosen.with_(mapping={"*": {"cores": {}}})
    assert chosen.simulated.cycles <= 1.02 * alone.simulated.cycles


def test_tiles_of_rows_are_whole_blocks() -> None:
    made = wb.trace(
        lambda x: torch.softmax(x, 1), torch.randn(1000, 512), machine=wb.machine("tpu-v3", dram_tile="16x64")
    )
    (kernel,) = made.scheduled.record.kernels
    assert kernel.mapping.tile["d0"] % 16 == 0
    moved = made.simulated.record.counters["dram_request_bytes"]
    assert moved == 2 * 1008 * 512 * 4
