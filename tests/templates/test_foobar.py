"""`aten._foobar` three times: the same numbers and the same bytes, in less and less time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import workbench as wb
from templates.foobar import FoobarDirect, FoobarDoubleBuffered, FoobarTiled, register_fake
from tests.flow import moved
from workbench.ground.errors import TemplateHookUnused

FORMS = [FoobarDirect, FoobarTiled, FoobarDoubleBuffered]
SHAPES = [(1, 1), (47, 10), (128, 128), (512, 768)]


def foobar(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten._foobar(x)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register_fake()
    with wb.ops.scope():
        yield


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
def test_every_form_copies_exactly(form, shape, machine):
    wb.ops.template("aten._foobar.default")(form)
    j = wb.trace(foobar, torch.randn(shape), machine=machine)
    assert list(j.lowered.table.route) == ["template"]
    assert j.check(torch.randn(shape)).ok and j.check(stage="rendered").ok
    counters = j.simulated.trace.counters
    size = torch.Size(shape).numel() * 4
    assert (counters["dram_read_bytes"], counters["dram_write_bytes"]) == (size, size)
    j.simulated.trace.invariants()


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
def test_tiles_beat_elements_and_two_slots_beat_one(machine):
    cycles, stalls = [], []
    for form in FORMS:
        with wb.ops.scope():
            wb.ops.template("aten._foobar.default")(form)
            j = wb.trace(foobar, torch.randn(512, 768), machine=machine)
            if form is not FoobarDirect:
                kernel = j.scheduled.kernels[0]
                assert len(kernel.program) >= 4 * 3
            cycles.append(j.simulated.cycles)
            stalls.append(j.simulated.stalls)
    direct, tiled, double = cycles
    assert direct > tiled > double
    # With one slot the queues stand idle until a tile is copied; with two, the next tile's load runs meanwhile.
    tiled_wait, double_wait = (int(table[table.unit.str.startswith("dma")].data.sum()) for table in stalls[1:])
    assert double_wait < tiled_wait / 10


def test_pointwise_neighbours_go_into_the_kernel():
    wb.ops.template("aten._foobar.default", kind="tile")(FoobarDoubleBuffered)
    x = torch.randn(60, 50)
    j = wb.trace(lambda x: torch.nn.functional.gelu(foobar(torch.exp(x * 0.5)) - 1.5), x, machine="edge-8x8")
    assert len(j.lowered.record.kernels) == 1
    assert j.check(torch.randn(60, 50)).ok
    assert sum(moved(j.scheduled.kernels[0].program).values()) == 2 * 60 * 50 * 4
    program = j.scheduled.kernels[0].program
    named = {program.origin_names[origin] for origin in program.origin.tolist()}
    parents = {j.lowered.record.node(name).parent for name in named}
    assert {"foobar", "gelu"} <= parents and parents & {"exp", "mul"}


def test_a_neighbour_of_another_tensor_stays_outside():
    wb.ops.template("aten._foobar.default", kind="tile")(FoobarTiled)
    j = wb.trace(lambda x, y: foobar(x) + y, torch.randn(8, 8), torch.randn(8, 8))
    assert len(j.lowered.record.kernels) == 2 and j.check().ok
    (refused,) = [each for each in j.lowered.record.fusions if not each.fused]
    assert "no tile of another tensor" in refused.reason


def test_a_template_without_hooks_says_so_when_they_are_needed():
    wb.ops.template("aten._foobar.default", kind="tile")(FoobarDirect)
    j = wb.trace(lambda x: foobar(x).exp(), torch.randn(8, 8))
    with pytest.raises(TemplateHookUnused, match="never calls"):
        _ = j.rendered


def test_the_users_mapping_reaches_the_template():
    wb.ops.template("aten._foobar.default")(FoobarTiled)
    j = wb.trace(foobar, torch.randn(64, 64), mapping={"*": {"tile": {"d0": 8, "d1": 32}, "buffers": 3}})
    kernel = j.scheduled.kernels[0]
    assert len(kernel.program) == 8 * 2 * 3 and kernel.program.buffers[0].slots == 3
    assert j.check().ok


@pytest.mark.test_all(but=3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
def test_every_form_runs_behind_torch_compile(form, shape, machine):
    wb.ops.template("aten._foobar.default")(form)
    x = torch.randn(shape)
    torch.compiler.reset()
    compiled = torch.compile(foobar, backend="npu", options={"machine": machine})
    assert torch.equal(compiled(x), x)
    (j,) = wb.last_journeys()
    assert list(j.lowered.table.route) == ["template"]
    counters = j.simulated.trace.counters
    assert counters["dram_read_bytes"] == counters["dram_write_bytes"] == x.numel() * 4


def test_a_journey_keeps_its_template_when_another_is_registered():
    wb.ops.template("aten._foobar.default")(FoobarTiled)
    j = wb.trace(foobar, torch.randn(128, 128))
    wb.ops.drop("aten._foobar.default")
    wb.ops.template("aten._foobar.default")(FoobarDoubleBuffered)
    on_edge = j.with_(machine="edge-8x8")
    assert [each.scheduled.kernels[0].mapping.buffers for each in (j, on_edge)] == [1, 1]
