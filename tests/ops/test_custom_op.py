"""A custom operator from a notebook cell: schema, fake, reference and kernel, seen at every stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from workbench.commands import cli
from workbench.ground import errors

CELL = """
import torch
import workbench as wb
from torch_mlir.dialects import arith, math

@torch.library.custom_op("celltest::fused_gate", mutates_args=())
def fused_gate(gate: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(gate) * value

@fused_gate.register_fake
def _(gate, value):
    return torch.empty_like(value)

@wb.ops.builder("celltest::fused_gate", dialect="math", kind="elementwise")
def build(op):
    def one(gate, value):
        unit = op.number(1.0)
        return arith.mulf(arith.divf(unit, arith.addf(unit, math.exp(arith.negf(gate)))), value)
    return op.elementwise(one, *op.operands)
"""
X, Y = torch.randn(33, 20), torch.randn(33, 20)


def run_cell(number: int, source: str = CELL) -> None:
    exec(compile(source, f"/tmp/ipykernel_7/{number}.py", "exec"), {"__name__": "__main__"})


def uses(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.ops.celltest.fused_gate(x, y) * 2 + 1


pytestmark = pytest.mark.usefixtures("own_scope")


@pytest.mark.test_all
@pytest.mark.parametrize("mode", ["dynamo", "export"])
def test_it_is_visible_at_every_stage(mode: str):
    run_cell(1)
    journey = wb.trace(uses, X, Y, capture=mode)
    name = "celltest.fused_gate.default"
    line = uses.__code__.co_firstlineno + 1
    captured = journey.captured.table.set_index("op")
    assert (captured.file[name], captured.line[name]) == (__file__, line)
    lowered = journey.lowered.table.set_index("op")
    assert lowered.route[name] == "builder" and lowered.kernel[name] == "k0_fused_gate_mul_add"
    (rendered,) = journey.rendered.kernels
    assert ("fused_gate",) in rendered.lines.values() and "math.exp" in rendered.mlir
    (scheduled,) = journey.scheduled.kernels
    assert "math.exp" in scheduled.mlir
    assert any("fused_gate" in origins for origins in journey.simulated.events.origins)
    assert journey.simulated.by_op.set_index("op").busy_cycles[name] > 0
    for stage in ("captured", "rendered", "scheduled", "simulated"):
        assert journey.check(torch.randn(33, 20), torch.randn(33, 20), stage=stage).ok


@pytest.mark.test_all
def test_running_the_cell_again_replaces_and_leaving_the_scope_restores():
    with wb.ops.scope():
        run_cell(1)
        run_cell(2, CELL.replace(", value)\n    return op", ", op.number(3.0))\n    return op"))
        torch.testing.assert_close(wb.trace(uses, X, Y).run(X, Y), torch.sigmoid(X) * 3 * 2 + 1)
        who: Any = wb.ops.who("celltest::fused_gate")
        assert who.route == "builder" and "/tmp/ipykernel_7/2.py:14" in str(who)
    assert wb.ops.who("celltest::fused_gate").route == "host"


def test_a_module_that_claims_it_too_is_an_error_naming_both_files(tmp_path: Path):
    run_cell(1)
    file = tmp_path / "rival.py"
    file.write_text('import workbench as wb\n@wb.ops.builder("celltest::fused_gate", dialect="math")\ndef b(op): ...\n')
    with pytest.raises(errors.RegistrationClash, match=r"/tmp/ipykernel_7/1\.py:14.*rival\.py:2"):
        exec(compile(file.read_text(), str(file), "exec"), {"__name__": "rival"})


def test_without_a_kernel_it_runs_on_the_host():
    run_cell(1)
    wb.ops.drop("celltest::fused_gate")
    with pytest.warns(errors.HostRoute, match=r"celltest\.fused_gate\.default"):
        journey = wb.trace(uses, X, Y)
    assert journey.check().ok


@pytest.mark.test_all
def test_it_compiles_with_torch_compile():
    run_cell(1)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(uses, backend="npu")(X, Y), uses(X, Y), rtol=1e-4, atol=1e-4)
    assert list(wb.last_journeys()[0].lowered.table.route) == ["builder", "automatic", "automatic"]


def test_a_builder_of_add_tensor_leaves_add_scalar_alone():
    calls: list[str] = []

    def build(op: Any) -> Any:
        from torch_mlir.dialects import arith

        calls.append(op.overload)
        return op.elementwise(lambda x, y: arith.addf(x, y), *op.operands)

    wb.ops.builder("aten.add.Tensor", dialect="arith", kind="elementwise")(build)

    def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.add.Scalar(torch.ops.aten.add.Tensor(x, y), 5)

    journey = wb.trace(both, X, Y)
    assert dict(zip(journey.lowered.table.op, journey.lowered.table.route, strict=True)) == {
        "aten.add.Tensor": "builder",
        "aten.add.Scalar": "automatic",
    }
    assert journey.check().ok and set(calls) == {"aten.add.Tensor"}


def test_the_command_prints_the_table_and_who_makes_an_op(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["ops"]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].split() == ["overload", "route", "owner", "file", "line", "dialect", "kind"]
    assert "aten.hypot.default" in printed and "templates.special.hypot" in printed
    assert cli.main(["ops", "aten.mul.Tensor"]) == 0
    assert capsys.readouterr().out == "aten.mul.Tensor: automatic, torch-mlir imports it (pointwise)\n"
    assert cli.main(["ops", "aten.add.Tensor"]) == 0
    assert capsys.readouterr().out.endswith(
        "where the formula covers the call; else torch-mlir imports it (pointwise)\n"
    )
    assert cli.main(["ops", "aten.hypott"]) == 2
    assert "did you mean aten.hypot?" in capsys.readouterr().err


@pytest.mark.test_all
def test_the_roundings_within_an_operator_of_ones_own_are_allowed_for():
    """The sum cancels in some elements, and all that is left of them are the gate's roundings."""
    run_cell(1)
    gated = torch.ops.celltest.fused_gate
    for seed in (4, 6, 8):
        torch.manual_seed(seed)
        j = wb.trace(lambda x, y: gated(x, y) * 0.5 + x, torch.randn(64, 96), torch.randn(64, 96))
        assert j.check(), seed
